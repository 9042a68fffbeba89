"""Where settings come from, which one wins, and what is refused."""

from pathlib import Path

import platformdirs
import pytest

from headwater.errors import SettingsError
from headwater.settings import Settings

PORTS = (
    "kafka_port",
    "registry_port",
    "postgres_port",
    "connect_port",
    "redis_port",
    "search_port",
    "mariadb_port",
)


def load(folder: Path, toml: str | None = None, **environ: str) -> Settings:
    if toml is not None:
        (folder / "headwater.toml").write_text(toml)
    return Settings.load(environ, folder)


def test_the_defaults_need_nothing(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.home == tmp_path / ".headwater"
    assert settings.cache == Path(platformdirs.user_cache_dir("headwater"))
    assert settings.is_embedded
    assert settings.kafka_port is None
    assert dict(settings.kafka_options) == {}


def test_headwater_toml_wins_over_the_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, 'home = "state"\nkafka = "there:9092"\nkafka_port = 1234')
    assert settings.home == tmp_path / "state"
    assert (settings.kafka, settings.kafka_port) == ("there:9092", 1234)
    assert not settings.is_embedded


def test_the_environment_wins_over_headwater_toml(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        'home = "state"\nkafka = "there:9092"\nkafka_port = 1234',
        HEADWATER_KAFKA_PORT="4321",
        HEADWATER_HOME="/elsewhere",
    )
    assert (settings.home, settings.kafka, settings.kafka_port) == (Path("/elsewhere"), "there:9092", 4321)


def test_a_users_own_folder_may_be_written_with_a_tilde(tmp_path: Path) -> None:
    assert load(tmp_path, HEADWATER_CACHE="~/cache").cache == Path.home() / "cache"


def test_java_home_is_taken_from_its_usual_variable_unless_ours_says_otherwise(tmp_path: Path) -> None:
    assert load(tmp_path, JAVA_HOME="/java").java_home == Path("/java")
    assert load(tmp_path, JAVA_HOME="/java", HEADWATER_JAVA_HOME="/ours").java_home == Path("/ours")
    assert load(tmp_path, JAVA_HOME="").java_home is None


def test_java_home_of_headwater_toml_wins_over_the_usual_variable_and_ours_over_both(tmp_path: Path) -> None:
    toml = 'java_home = "/toml"'
    assert load(tmp_path, toml, JAVA_HOME="/java").java_home == Path("/toml")
    assert load(tmp_path, toml, JAVA_HOME="/java", HEADWATER_JAVA_HOME="/ours").java_home == Path("/ours")


def test_options_of_kafka_keep_kafkas_names_in_both_places(tmp_path: Path) -> None:
    toml = '[kafka_options]\n"sasl.mechanism" = "PLAIN"\n"security.protocol" = "SASL_SSL"\n"linger.ms" = 5'
    settings = load(tmp_path, toml, HEADWATER_KAFKA_SASL_MECHANISM="SCRAM-SHA-512")
    assert dict(settings.kafka_options) == {
        "sasl.mechanism": "SCRAM-SHA-512",
        "security.protocol": "SASL_SSL",
        "linger.ms": "5",
    }


def test_options_of_the_registry_keep_their_names_too(tmp_path: Path) -> None:
    settings = load(tmp_path, HEADWATER_REGISTRY_BASIC_AUTH_USER_INFO="a:b", HEADWATER_REGISTRY="http://r")
    assert dict(settings.registry_options) == {"basic.auth.user.info": "a:b"}
    assert settings.registry == "http://r"


def test_secrets_are_never_in_the_repr(tmp_path: Path) -> None:
    settings = load(
        tmp_path, HEADWATER_KAFKA_SASL_PASSWORD="s3cret", HEADWATER_REGISTRY_BASIC_AUTH_USER_INFO="a:s3cret"
    )
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in str(settings)


def test_a_password_in_the_registrys_address_is_never_in_the_repr(tmp_path: Path) -> None:
    settings = load(tmp_path, HEADWATER_REGISTRY="https://me:s3cret@there:8081")
    assert settings.registry == "https://me:s3cret@there:8081"
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in str(settings)


def test_an_unknown_variable_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, HEADWATER_KAFAK="there:9092")
    assert raised.value.message == "unknown setting HEADWATER_KAFAK"
    assert "HEADWATER_KAFKA," in raised.value.hint


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    assert load(tmp_path, KAFKA="x", HEADWATERS="y") == load(tmp_path)


def test_an_unknown_key_in_headwater_toml_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, "port = 1")
    assert raised.value.message == f"unknown setting 'port' in {tmp_path / 'headwater.toml'}"
    assert "kafka_port" in raised.value.hint


def test_a_headwater_toml_that_is_not_toml_is_refused_with_the_place(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"headwater\.toml is not TOML") as raised:
        load(tmp_path, "home = ?")
    assert "line 1" in raised.value.detail


def test_a_headwater_toml_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not TOML"):
        load(tmp_path)


def test_a_headwater_toml_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize("port", ["0", "-1", "65536", "http", "", "9092.5"])
@pytest.mark.parametrize(
    "name", ["kafka_port", "registry_port", "postgres_port", "connect_port", "redis_port"]
)
def test_a_port_that_cannot_be_is_refused(tmp_path: Path, name: str, port: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, **{f"HEADWATER_{name.upper()}": port})
    assert raised.value.message == f"{name} must be a port from 1 to 65535, not {port!r}"


@pytest.mark.parametrize("port", ["1", "65535"])
def test_the_first_and_the_last_port_are_taken(tmp_path: Path, port: str) -> None:
    assert load(tmp_path, HEADWATER_KAFKA_PORT=port).kafka_port == int(port)


@pytest.mark.parametrize("toml", ["kafka_port = true", "kafka_port = [1]", "kafka_port = 1.5"])
def test_a_port_of_another_kind_is_refused(tmp_path: Path, toml: str) -> None:
    with pytest.raises(SettingsError, match="must be a port"):
        load(tmp_path, toml)


@pytest.mark.parametrize("toml", ["home = 5", 'kafka = ""', "cache = []", "registry = true"])
def test_a_text_that_is_none_is_refused(tmp_path: Path, toml: str) -> None:
    with pytest.raises(SettingsError, match="must be a text that is not empty"):
        load(tmp_path, toml)


def test_options_that_are_not_a_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="kafka_options must be a table of options"):
        load(tmp_path, "kafka_options = 5")


def test_options_that_are_not_a_table_are_refused_also_beside_those_of_the_environment(
    tmp_path: Path,
) -> None:
    with pytest.raises(SettingsError, match="kafka_options must be a table of options"):
        load(tmp_path, "kafka_options = 5", HEADWATER_KAFKA_SASL_MECHANISM="PLAIN")


def test_a_home_of_somebody_unknown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="home cannot be '~nobody-of-that-name/x'"):
        load(tmp_path, HEADWATER_HOME="~nobody-of-that-name/x")


def test_the_environment_and_the_folder_are_those_of_the_process_unless_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_KAFKA_PORT", "1234")
    settings = Settings.load()
    assert (settings.home, settings.kafka_port) == (tmp_path / ".headwater", 1234)
