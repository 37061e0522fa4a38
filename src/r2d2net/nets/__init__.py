"""Networks as plain modules, with nothing Bayesian in them: `BayesianModel` makes any of them Bayesian.

Networks of images map (rows, channels, size, size) to (rows, classes).
"""

from r2d2net.nets.alexnet import AlexNet
from r2d2net.nets.by_name import build
from r2d2net.nets.gcn import GCN
from r2d2net.nets.lenet import LeNet
from r2d2net.nets.linear_path import LinearPath
from r2d2net.nets.perceptron import MLP, mlp, paper_mlp
from r2d2net.nets.resnet import ResNet, resnet50, resnet101
from r2d2net.nets.simple_cnn import SimpleCNN
from r2d2net.nets.vgg import VGG
from r2d2net.nets.vit import ViT

__all__ = [
    "GCN",
    "MLP",
    "VGG",
    "AlexNet",
    "LeNet",
    "LinearPath",
    "ResNet",
    "SimpleCNN",
    "ViT",
    "build",
    "mlp",
    "paper_mlp",
    "resnet50",
    "resnet101",
]
