"""Models of torchvision that hold BatchNorm layers, by the name of the function that builds them.

Detection models are left out: with pretrained weights their BatchNorm is frozen.
"""

from __future__ import annotations

import re

SOURCE = "torchvision 0.29.1, models"
LIBRARY = "torchvision"
BUILDERS = re.compile(
    r"(wide_)?resne(t|xt)\d+(_\w+)?|densenet\d+|efficientnet_\w+|googlenet|inception_v3|maxvit_t|mnasnet\d_\d+"
    r"|mobilenet_v[23]\w*|regnet_[xy]_\w+|shufflenet_v2_\w+|vgg\d+_bn|lraspp_\w+|deeplabv3_\w+|fcn_resnet\d+"
    r"|s3d|(r3d|mc3|r2plus1d)_18"
)
