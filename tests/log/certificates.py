"""Certificates for one test: an authority, and keys with certificates that it signed, all in PEM."""

from datetime import timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headwater import clock

_PEM = serialization.Encoding.PEM


class Authority:
    """Signs certificates for loopback; `file` is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority")
        self._certificate = self._sign("authority", self._key, ca=True)
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._certificate.public_bytes(_PEM))

    def store(self, name: str) -> Path:
        """A file with a new key and its certificate, as Kafka's PEM key stores are."""
        key = ec.generate_private_key(ec.SECP256R1())
        file = self._folder / f"{name}.pem"
        secret = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(secret + self._sign(name, key, ca=False).public_bytes(_PEM))
        return file

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        now = clock.now()
        loopback = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(loopback, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
