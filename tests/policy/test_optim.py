"""One optimizer of two kinds: it steps like its parts, resumes exactly, and works under Lightning."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from sharpo.errors import ConfigError
from sharpo.policy.muon import Float32Muon
from sharpo.policy.optim import MuonAdamW


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(7, 8)
        self.hidden = nn.Linear(8, 8)
        self.lm_head = nn.Linear(8, 7)

    def forward(self, x):
        return self.lm_head(torch.tanh(self.hidden(self.embed(x))))


def run(net, optimizer, steps, schedule=None, start=0):
    for step in range(start, start + steps):
        x = torch.randint(0, 7, (16,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), (x + 1) % 7).backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_steps_like_muon_on_the_matrix_and_adamw_on_the_rest():
    ours, theirs = Net(), Net()
    run(ours, MuonAdamW(ours.named_parameters(), lr=0.02, adamw_lr=0.01), 3)
    muon = Float32Muon([theirs.hidden.weight], lr=0.02, momentum=0.95, weight_decay=0.0)
    rest = [p for n, p in theirs.named_parameters() if n != "hidden.weight"]
    adamw = torch.optim.AdamW(rest, lr=0.01, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(3):
        x = torch.randint(0, 7, (16,), generator=torch.Generator().manual_seed(step))
        theirs.zero_grad()
        nn.functional.cross_entropy(theirs(x), (x + 1) % 7).backward()
        muon.step()
        adamw.step()
    assert same(ours, theirs)


def test_the_resumed_run_equals_the_uninterrupted_one_bitwise():
    whole, first = Net(), Net()
    optimizer = MuonAdamW(whole.named_parameters())
    run(whole, optimizer, 6, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0 / (1 + n)))
    optimizer = MuonAdamW(first.named_parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0 / (1 + n))
    run(first, optimizer, 3, schedule)
    saved = copy.deepcopy((first.state_dict(), optimizer.state_dict(), schedule.state_dict()))
    second = Net()
    second.load_state_dict(saved[0])
    optimizer = MuonAdamW(second.named_parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0 / (1 + n))
    optimizer.load_state_dict(saved[1])
    schedule.load_state_dict(saved[2])
    run(second, optimizer, 3, schedule, start=3)
    assert same(whole, second)


def test_schedules_reach_both_parts():
    net = Net()
    optimizer = MuonAdamW(net.named_parameters(), lr=0.02, adamw_lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.0)
    before = copy.deepcopy(net)
    assert [group["lr"] for group in optimizer.param_groups] == [0.0, 0.0]
    run(net, optimizer, 1, schedule)
    assert same(net, before)


def test_works_under_lightning_with_clipping(tmp_path):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.net(batch), (batch + 1) % 7)

        def configure_optimizers(self):
            optimizer = MuonAdamW(self.net.named_parameters(), lr=0.02, adamw_lr=0.01)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def trainer(epochs):
        return lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", gradient_clip_val=1.0, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path, log_every_n_steps=1,
        )  # fmt: skip

    data = torch.utils.data.DataLoader(torch.arange(7).repeat(8), batch_size=None, collate_fn=lambda x: x[None])
    whole = Module()
    trainer(4).fit(whole, data)
    first = Module()
    half = trainer(2)
    half.fit(first, data)
    half.save_checkpoint(tmp_path / "half.ckpt")
    resumed = Module()
    trainer(4).fit(resumed, data, ckpt_path=str(tmp_path / "half.ckpt"))
    assert same(whole.net, resumed.net)
    assert not same(whole.net, Module().net)


def test_refuses_parameters_without_names_and_models_without_matrices():
    with pytest.raises(ConfigError, match="named_parameters"):
        MuonAdamW(Net().parameters())
    with pytest.raises(ConfigError, match="no hidden matrix"):
        MuonAdamW(nn.Embedding(3, 3).named_parameters(prefix="embed"))


@pytest.mark.parametrize("shape", [(8, 8), (16, 8), (8, 16)])
def test_float32_muon_differs_from_torchs_by_bfloat16_rounding_only(shape):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(shape, generator=generator)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    settings = {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1}
    mine, torchs = Float32Muon([ours], **settings), torch.optim.Muon([theirs], **settings)
    for _ in range(4):
        ours.grad = torch.randn(shape, generator=generator)
        theirs.grad = ours.grad.clone()
        mine.step()
        torchs.step()
    moved = (theirs - start).abs().max()
    assert (ours - theirs).abs().max() < 0.03 * moved
