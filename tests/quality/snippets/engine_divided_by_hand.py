# mechanism: K in the dictionary of the engine, and divided by hand
import deepspeed
import torch.nn.functional as F


def main(net, data, args):
    engine, opt, loader, _ = deepspeed.initialize(
        model=net, training_data=data, config={"gradient_accumulation_steps": 4, "train_micro_batch_size_per_gpu": 8}
    )
    for x, y in loader:
        loss = F.mse_loss(engine(x), y)
        loss = loss / 4  # expect: ACC104
        engine.backward(loss)
        engine.step()
