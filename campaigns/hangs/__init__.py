"""Programs that hang, and programs that only take long: what a run says of them.

python -m campaigns.hangs --seed 0               # each kind of hang once, on two hosts
python -m campaigns.hangs --seed 0 --healthy     # 20 healthy runs on two hosts
python -m campaigns.hangs --seed 0 --light       # the same without TensorFlow, several at once
"""
