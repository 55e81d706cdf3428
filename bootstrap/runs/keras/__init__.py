"""What the source of a script shows: its Keras, and whether its ranks can join each other."""
