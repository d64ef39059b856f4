# expect: nothing
# mechanism: MAE's NativeScaler hides backward, clip and step; whole windows of drawn rows
import torch
import torch.nn.functional as F
from timm.utils import NativeScaler


def train(net, bank, accum, total):
    opt = torch.optim.AdamW(net.parameters())
    loss_scaler = NativeScaler()
    opt.zero_grad()
    for i in range(total):
        x = bank[torch.randint(0, len(bank), (8,))]
        with torch.autocast("cuda"):
            loss = F.mse_loss(net(x), x)
        loss = loss / accum
        need_update = (i + 1) % accum == 0
        loss_scaler(loss, opt, clip_grad=1.0, parameters=net.parameters(), need_update=need_update)
        if need_update:
            opt.zero_grad()
