import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.Security;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;

/**
 * Writes the certificates of a PEM file as a trust store of Java, without a password. An unencrypted
 * PKCS #12 file contains neither times nor random numbers, so the same certificates give the same bytes.
 *
 * <p>Usage: {@code java TrustStore.java BUNDLE.pem OUT}
 */
final class TrustStore {
    public static void main(String[] args) throws Exception {
        Security.setProperty("keystore.pkcs12.certProtectionAlgorithm", "NONE");
        Security.setProperty("keystore.pkcs12.macAlgorithm", "NONE");
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream bundle = Files.newInputStream(Path.of(args[0]))) {
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(bundle)) {
                X509Certificate authority = (X509Certificate) certificate;
                String alias = authority.getSerialNumber().toString(16) + " " + authority.getIssuerX500Principal();
                store.setCertificateEntry(alias, authority);
            }
        }
        try (OutputStream out = Files.newOutputStream(Path.of(args[1]))) {
            store.store(out, null);
        }
    }
}
