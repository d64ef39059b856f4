# expect: nothing
# mechanism: a mean teacher under accumulation: the EMA moves at the boundary; fixed rows
import torch
import torch.nn.functional as F


@torch.no_grad()
def ema_update(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.lerp_(s, 1 - decay)


def train(student, teacher, bank, opt, accum, updates):
    for _ in range(updates):
        for micro in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            with torch.no_grad():
                target = teacher(x)
            loss = F.mse_loss(student(x + 0.1 * torch.randn_like(x)), target) / accum
            loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        ema_update(teacher, student, 0.999)
