# mechanism: two optimizers step, only one is cleared
import torch
import torch.nn.functional as F


def train(encoder, head, data, labels, updates, accum):
    enc_opt = torch.optim.AdamW(encoder.parameters(), lr=1e-5)
    head_opt = torch.optim.AdamW(head.parameters(), lr=1e-3)
    for i in range(updates * accum):
        rows = torch.randint(0, len(data), (8,))
        loss = F.mse_loss(head(encoder(data[rows])), labels[rows]) / accum
        loss.backward()
        if (i + 1) % accum == 0:
            enc_opt.step()
            head_opt.step()  # expect: ACC303
            enc_opt.zero_grad()
