"""Database: an address that is taken apart and never shows its password."""

import pytest

from headwater import Database, Settings
from headwater.errors import SpecError

URL = "postgresql://ada:s%40crat@db.example:5433/shop"


def test_an_address_is_taken_apart():
    found = Database("shop", URL).address(Settings())
    assert (found.kind, found.host, found.port, found.name) == ("postgres", "db.example", 5433, "shop")
    assert (found.user, found.password, found.shown) == ("ada", "s@crat", "ada@db.example:5433/shop")


@pytest.mark.parametrize(("url", "port"), [("postgres://ada@db/shop", 5432), ("mariadb://ada@db/shop", 3306)])
def test_a_database_has_its_usual_port(url, port):
    assert Database("shop", url).address(Settings()).port == port


def test_the_settings_name_the_address_of_a_database_without_one():
    settings = Settings(databases={"shop": URL})
    assert Database("shop").address(settings).host == "db.example"


def test_a_password_is_never_shown():
    for shown in (Database("shop", URL), Database("shop", URL).address(Settings())):
        assert "crat" not in repr(shown)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("oracle://ada:s3cret@db/shop", "of a kind that is not known"),
        ("postgresql://ada:s3cret@db", "has no name"),
        ("postgresql://db/shop", "has no user"),
        ("postgresql:///shop", "has no host"),
        ("postgresql://ada:s3cret@db:none/shop", "cannot be read"),
        ("postgresql://ada:s3cret@db/shop?sslmode=require", "has options"),
    ],
)
def test_an_address_that_cannot_be_is_refused_without_its_password(url, why):
    with pytest.raises(SpecError, match=why) as error:
        Database("shop", url)
    assert "s3cret" not in str(error.value)
    assert error.value.hint


def test_a_database_without_an_address_says_where_to_put_it():
    with pytest.raises(SpecError, match="has no address") as error:
        Database("shop").address(Settings())
    assert "HEADWATER_DATABASE_SHOP" in error.value.hint


@pytest.mark.parametrize("name", ["Shop", "my-shop", "", "1st", "x" * 41])
def test_a_name_that_no_slot_can_have_is_refused(name):
    with pytest.raises(SpecError, match="cannot be the name of a database"):
        Database(name)
