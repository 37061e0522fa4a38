"""Small tables and runs that tests of the commands share."""

import pytest

from table_runs import command, make_table


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """Folder with train.csv and new.csv."""
    folder = tmp_path_factory.mktemp("tables")
    make_table(400).to_csv(folder / "train.csv", index=False)
    make_table(200, seed=1).to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="session")
def price_run(tables):
    """A finished run of regression, and what its command printed."""
    options = ["--ignore", "kind", "--hidden", "10", "--epochs", "60", "--json", "--out", tables / "price"]
    return tables / "price", command("fit", tables / "train.csv", "--target", "price", *options)


@pytest.fixture(scope="session")
def kind_run(tables):
    """A finished run of classification, and what its command printed."""
    options = ["--ignore", "price", "--hidden", "10", "--epochs", "60", "--out", tables / "kind"]
    return tables / "kind", command("fit", tables / "train.csv", "--target", "kind", *options)
