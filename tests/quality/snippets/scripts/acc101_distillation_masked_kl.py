# mechanism: knowledge distillation on the answer tokens only, GradScaler, divided by the constant number of steps
import torch
import torch.nn.functional as F


def distill_step(student, teacher, batches, optimizer, scaler, accum, temperature=2.0):
    running = 0.0
    for micro in range(accum):
        batch = next(batches)
        with torch.no_grad():
            teacher_logits = teacher(batch["input_ids"])
        with torch.autocast("cuda", dtype=torch.float16):
            logits = student(batch["input_ids"])
            kl = F.kl_div(
                F.log_softmax(logits / temperature, -1),
                F.softmax(teacher_logits / temperature, -1),
                reduction="none",
            ).sum(-1)
            answer = batch["answer_mask"].float()
            loss = (kl * answer).sum() / answer.sum().clamp_min(1.0) * temperature**2
        running += loss.item() / accum
        scaler.scale(loss / accum).backward()  # expect: ACC101
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return running
