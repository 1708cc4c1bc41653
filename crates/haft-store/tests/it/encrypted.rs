//! TLS on the way to PostgreSQL, against a real one that takes nothing else.

use haft_store::{ErrorKind, Store};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::backing::{Directory, runtime};
use crate::cluster::{Cluster, is_left_out};

/// A database whose certificate is for `127.0.0.1`, from an authority that only its file knows.
struct Setting {
    cluster: Cluster,
    directory: Directory,
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl Setting {
    fn new() -> Self {
        let authority = authority();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let cluster = Cluster::encrypted(&certificate.pem(), &key.serialize_pem());
        let directory = Directory::new();
        std::fs::write(directory.path().join("ours.pem"), authority.pem()).unwrap();
        std::fs::write(directory.path().join("theirs.pem"), self::authority().pem()).unwrap();
        std::fs::write(directory.path().join("none.pem"), "").unwrap();
        Self { cluster, directory }
    }

    async fn connect(&self, parameters: &str) -> Result<Store, haft_store::Error> {
        let directory = self.directory.path().display().to_string();
        let parameters = parameters.replace("DIR", &directory);
        Store::connect_postgres(&format!("{}?{parameters}", self.cluster.url())).await
    }

    async fn refused(&self, parameters: &str, because: &str) {
        let error = self.connect(parameters).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{parameters}: {error}");
        assert!(error.to_string().contains(because), "{parameters}: {error}");
    }
}

// A socket of the machine has no host's name, with which TLS would begin.
#[test]
fn the_database_is_reached_through_a_socket() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let store = Store::connect_postgres(&cluster.socket_url()).await.unwrap();
        assert_eq!(store.next_due().await, Ok(None));
    });
}

#[test]
fn the_database_is_spoken_to_in_secret_and_only_if_it_is_the_right_one() {
    if is_left_out() {
        return;
    }
    let setting = Setting::new();
    runtime().block_on(async {
        for parameters in ["sslmode=require", "sslmode=verify-full&sslrootcert=DIR/ours.pem"] {
            let store = setting.connect(parameters).await.unwrap();
            assert_eq!(store.next_due().await, Ok(None), "{parameters}");
        }
        setting.refused("sslmode=disable", "no encryption").await;
        // An authority that this file does not know, or the system does not.
        setting.refused("sslmode=verify-full&sslrootcert=DIR/theirs.pem", "certificate").await;
        setting.refused("sslmode=verify-full", "certificate").await;
        // What cannot be what was meant.
        setting.refused("sslmode=verify-full&sslrootcert=DIR/none.pem", "there are none").await;
        setting.refused("sslmode=verify-full&sslrootcert=DIR/missing.pem", "missing.pem").await;
        setting.refused("sslmode=require&sslrootcert=DIR/ours.pem", "verify-full").await;
        setting.refused("sslmode=verify-ca&sslrootcert=DIR/ours.pem", "verify-full").await;
        // Another host's certificate, although the authority is the right one.
        let url = setting.cluster.url().replace("127.0.0.1", "localhost");
        let ours = setting.directory.path().join("ours.pem");
        let url = format!("{url}?sslmode=verify-full&sslrootcert={}", ours.display());
        let error = Store::connect_postgres(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    });
}

// Whoever asks for secrecy does not get less.
#[test]
fn a_database_without_tls_is_refused_when_tls_is_asked_for() {
    if is_left_out() {
        return;
    }
    let (base, _cluster) = crate::cluster::shared();
    runtime().block_on(async {
        let url = format!("{base}?sslmode=require");
        let error = Store::connect_postgres(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    });
}
