"""Controls a run on its chief: supervises mpirun and its attempts, then stops the machines."""
