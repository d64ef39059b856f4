# expect: nothing
# mechanism: Accelerate, guarded clip, validation and saving at sync, fixed shapes drawn at random
import torch
import torch.nn.functional as F
from accelerate import Accelerator


def main(args, net, bank, held_out):
    accelerator = Accelerator(gradient_accumulation_steps=args.accum, log_with="wandb")
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    net, opt, sched = accelerator.prepare(net, opt, sched)
    done, train_loss = 0, 0.0
    while done < args.steps:
        x = bank[torch.randint(0, len(bank), (args.batch,))]
        with accelerator.accumulate(net):
            loss = F.mse_loss(net(x), x)
            train_loss += accelerator.gather(loss.detach().repeat(args.batch)).mean().item() / args.accum
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), args.clip)
            opt.step()
            sched.step()
            opt.zero_grad()
        if accelerator.sync_gradients:
            done += 1
            accelerator.log({"loss": train_loss}, step=done)
            train_loss = 0.0
            if done % args.eval_every == 0:
                net.eval()
                with torch.no_grad():
                    accelerator.log({"val": F.mse_loss(net(held_out), held_out).item()}, step=done)
                net.train()
