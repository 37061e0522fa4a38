"""Data: simulated regressions, the public image sets and tables by name, splits, preprocessing, loaders."""

from r2d2net.data.corruptions import corrupt
from r2d2net.data.fetching import fetch
from r2d2net.data.formats.image_folder import image_folder
from r2d2net.data.formats.retinopathy import retinopathy_folder
from r2d2net.data.formats.uci_table import read_uci
from r2d2net.data.image_loader import PreparedImages, image_loader
from r2d2net.data.image_set import ImageSet
from r2d2net.data.loading import load
from r2d2net.data.ood_scoring import ood_images
from r2d2net.data.preprocess import Augment, Preprocess
from r2d2net.data.simulation import Simulated, simulate
from r2d2net.data.splitting import stratified_folds, train_validation_test
from r2d2net.data.table import Table, read_table

__all__ = [
    "Augment",
    "ImageSet",
    "PreparedImages",
    "Preprocess",
    "Simulated",
    "Table",
    "corrupt",
    "fetch",
    "image_folder",
    "image_loader",
    "load",
    "ood_images",
    "read_table",
    "read_uci",
    "retinopathy_folder",
    "simulate",
    "stratified_folds",
    "train_validation_test",
]
