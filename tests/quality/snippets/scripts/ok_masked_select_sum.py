# expect: nothing
# mechanism: the selected errors are summed, the divisor counts the selected of the whole window


def update(net, opt, window):
    total = sum(int(batch["mask"].sum()) for batch in window)
    for batch in window:
        error = (net(batch["x"]) - batch["y"]).abs()
        loss = error.masked_select(batch["mask"]).sum() / max(total, 1)
        loss.backward()
    opt.step()
    opt.zero_grad()
