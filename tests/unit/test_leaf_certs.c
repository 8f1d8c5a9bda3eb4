/* Goal: strict clients that trust the CA accept what it makes, for that name only, over
 * TLS 1.2 and 1.3; certificates are made once, again in time, and no more than the cache holds are
 * kept. */
#include "lib/net/leaf_certs.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "support.h"

#define NOW 1800000000LL
#define DAY 86400LL

static char ca_pem[LEAF_CERTS_PEM_MAX], public_pem[LEAF_CERTS_PEM_MAX];

static struct leaf_certs *new_mint(int64_t now)
{
	struct err e = { 0 };
	struct leaf_certs *m;
	char link[16];

	CHECK(leaf_certs_create_ca(now, ca_pem, &e) == 0);
	CHECK(leaf_certs_ca_cert(ca_pem, public_pem, link, &e) == 0);
	CHECK(strstr(public_pem, "PRIVATE") == NULL && strstr(ca_pem, "PRIVATE") != NULL);
	CHECK(strlen(link) == 10 && strcmp(link + 8, ".0") == 0);
	m = leaf_certs_new(ca_pem, &e);
	CHECK(m != NULL);
	return m;
}

static X509 *read_cert(const char *pem)
{
	BIO *in = BIO_new_mem_buf(pem, -1);
	X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);

	CHECK(cert != NULL);
	BIO_free(in);
	return cert;
}

/* ---- a client and the minted server, in one process */

struct ends {
	int socks[2];
	SSL_CTX *ctx;
	SSL *client;
	struct tls_conn *server;
	struct err e; /* the server's */
	bool done;
};

static void open_ends(struct ends *x, struct tls *t, const char *host, int version,
		      const char *alpn, SSL_SESSION *session)
{
	X509 *ca = read_cert(public_pem);

	*x = (struct ends){ 0 };
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, x->socks) == 0);
	x->ctx = SSL_CTX_new(TLS_client_method());
	CHECK(X509_STORE_add_cert(SSL_CTX_get_cert_store(x->ctx), ca) == 1);
	X509_free(ca);
	SSL_CTX_set_verify(x->ctx, SSL_VERIFY_PEER, NULL);
	CHECK(SSL_CTX_set_max_proto_version(x->ctx, version) == 1);
	x->client = SSL_new(x->ctx);
	CHECK(X509_VERIFY_PARAM_set_flags(SSL_get0_param(x->client), X509_V_FLAG_X509_STRICT) == 1);
	if (strchr("0123456789", host[0]))
		CHECK(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(x->client), host) == 1);
	else
		CHECK(SSL_set1_host(x->client, host) == 1);
	if (alpn)
		CHECK(SSL_set_alpn_protos(x->client, (const unsigned char *)alpn,
					  (unsigned)strlen(alpn)) == 0);
	if (session)
		CHECK(SSL_set_session(x->client, session) == 1);
	CHECK(SSL_set_fd(x->client, x->socks[0]) == 1);
	SSL_set_connect_state(x->client);
	x->server = tls_open(t, x->socks[1], NULL, &x->e);
	CHECK(x->server != NULL);
}

/* Returns whether both are content. */
static bool shake_hands(struct ends *x)
{
	bool client = false, server = false;

	for (int i = 0; i < 20 && !(client && server) && x->e.code == ERR_NONE; i++) {
		client = SSL_do_handshake(x->client) == 1;
		server = tls_handshake(x->server, &x->e) == 0;
	}
	return client && server;
}

/* One byte to the client, which reads tickets on the way. */
static void tell_client(struct ends *x)
{
	char byte;

	CHECK(tls_write(x->server, "x", 1) == 1);
	CHECK(SSL_read(x->client, &byte, 1) == 1 && byte == 'x');
}

static void close_ends(struct ends *x)
{
	/* OpenSSL resumes no session that was cut. */
	SSL_set_shutdown(x->client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(x->client);
	SSL_CTX_free(x->ctx);
	tls_close(x->server);
	(void)close(x->socks[0]);
	(void)close(x->socks[1]);
}

static X509 *shown_for(struct leaf_certs *m, const char *host, int64_t now)
{
	struct err e = { 0 };
	struct tls *t = leaf_certs_server_at(m, host, now, &e);
	struct ends x;
	X509 *cert;

	CHECK(t != NULL);
	open_ends(&x, t, host, TLS1_3_VERSION, NULL, NULL);
	SSL_set_verify(x.client, SSL_VERIFY_NONE, NULL); /* it may be another time */
	CHECK(shake_hands(&x));
	cert = SSL_get1_peer_certificate(x.client);
	CHECK(cert != NULL);
	close_ends(&x);
	return cert;
}

/* ---- */

static bool accepts(struct leaf_certs *m, const char *made_for, const char *asked, int version,
		    const char *alpn)
{
	struct err e = { 0 };
	struct tls *t = leaf_certs_server(m, made_for, &e);
	struct ends x;
	bool content;

	CHECK(t != NULL);
	open_ends(&x, t, asked, version, alpn, NULL);
	content = shake_hands(&x);
	if (content) {
		tell_client(&x);
		CHECK(SSL_version(x.client) == version);
	}
	close_ends(&x);
	return content;
}

static void strict_clients_take_it(void)
{
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	struct leaf_certs *m = new_mint((int64_t)time(NULL));

	for (size_t i = 0; i < COUNT(versions); i++) {
		CHECK(accepts(m, "api.example", "api.example", versions[i], NULL));
		CHECK(accepts(m, "192.0.2.7", "192.0.2.7", versions[i], NULL));
		CHECK(accepts(m, "2001:db8::7", "2001:db8::7", versions[i], NULL));
		CHECK(!accepts(m, "api.example", "other.example", versions[i], NULL));
		CHECK(!accepts(m, "api.example", "x.api.example", versions[i], NULL));
		CHECK(!accepts(m, "192.0.2.7", "192.0.2.8", versions[i], NULL));
	}
	CHECK(!accepts(m, "api.example", "api.example", TLS1_1_VERSION, NULL));
	leaf_certs_free(m);
}

static void http1_or_nothing(void)
{
	struct leaf_certs *m = new_mint((int64_t)time(NULL));
	struct err e = { 0 };
	struct ends x;

	CHECK(accepts(m, "a.example", "a.example", TLS1_3_VERSION, "\x02h2\x08http/1.1"));
	CHECK(!accepts(m, "a.example", "a.example", TLS1_3_VERSION, "\x02h2"));
	open_ends(&x, leaf_certs_server(m, "a.example", &e), "a.example", TLS1_3_VERSION, "\x02h2",
		  NULL);
	CHECK(!shake_hands(&x));
	ERR_clear_error();
	CHECK(SSL_do_handshake(x.client) == -1);
	CHECK(ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
	close_ends(&x);
	leaf_certs_free(m);
}

static void a_ticket_is_good_for_its_name_only(void)
{
	struct leaf_certs *m = new_mint((int64_t)time(NULL));
	struct err e = { 0 };
	SSL_SESSION *session;
	struct ends x;

	open_ends(&x, leaf_certs_server(m, "a.example", &e), "a.example", TLS1_3_VERSION, NULL,
		  NULL);
	CHECK(shake_hands(&x));
	tell_client(&x);
	session = SSL_get1_session(x.client);
	CHECK(session != NULL && SSL_SESSION_is_resumable(session));
	close_ends(&x);

	open_ends(&x, leaf_certs_server(m, "a.example", &e), "a.example", TLS1_3_VERSION, NULL,
		  session);
	CHECK(shake_hands(&x));
	CHECK(SSL_session_reused(x.client));
	close_ends(&x);
	open_ends(&x, leaf_certs_server(m, "b.example", &e), "b.example", TLS1_3_VERSION, NULL,
		  session);
	CHECK(shake_hands(&x) && !SSL_session_reused(x.client));
	close_ends(&x);
	SSL_SESSION_free(session);
	leaf_certs_free(m);
}

static int64_t seconds_from(const ASN1_TIME *at, int64_t since)
{
	ASN1_TIME *base = ASN1_TIME_set(NULL, (time_t)since);
	int days, seconds;

	CHECK(ASN1_TIME_diff(&days, &seconds, base, at) == 1);
	ASN1_TIME_free(base);
	return days * DAY + seconds;
}

static void says_what_it_should(void)
{
	struct leaf_certs *m = new_mint(NOW);
	X509 *cert = shown_for(m, "a.example", NOW), *ca = read_cert(public_pem);
	GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

	CHECK(seconds_from(X509_get0_notBefore(cert), NOW) == -DAY);
	CHECK(seconds_from(X509_get0_notAfter(cert), NOW) == 30 * DAY);
	CHECK(seconds_from(X509_get0_notAfter(ca), NOW) == 3650 * DAY);
	CHECK(sk_GENERAL_NAME_num(names) == 1);
	CHECK(X509_check_ca(cert) == 0 && X509_check_ca(ca) == 1);
	CHECK(X509_get_pathlen(ca) == 0 &&
	      X509_get_key_usage(ca) == (KU_KEY_CERT_SIGN | KU_CRL_SIGN));
	CHECK(X509_get_key_usage(cert) == KU_DIGITAL_SIGNATURE);
	CHECK(X509_get_extended_key_usage(cert) == XKU_SSL_SERVER);
	CHECK(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(cert),
				    X509_get0_subject_key_id(ca)) == 0);
	GENERAL_NAMES_free(names);
	X509_free(cert);
	X509_free(ca);
	leaf_certs_free(m);
}

static void is_made_again_in_time(void)
{
	struct leaf_certs *m = new_mint(NOW);
	X509 *first = shown_for(m, "a.example", NOW), *cert;

	cert = shown_for(m, "a.example", NOW + 15 * DAY - 1);
	CHECK(X509_cmp(first, cert) == 0);
	X509_free(cert);
	cert = shown_for(m, "a.example", NOW + 15 * DAY);
	CHECK(X509_cmp(first, cert) != 0);
	X509_free(cert);
	cert = shown_for(m, "a.example", NOW - 2 * DAY); /* the clock was set back */
	CHECK(seconds_from(X509_get0_notBefore(cert), NOW) == -3 * DAY);
	X509_free(cert);
	X509_free(first);
	leaf_certs_free(m);
}

static void the_least_used_goes(void)
{
	struct leaf_certs *m = new_mint(NOW);
	struct err e = { 0 };
	X509 *first = shown_for(m, "first.example", NOW),
	     *second = shown_for(m, "second.example", NOW);
	X509 *cert;
	struct ends open;
	char name[64];

	open_ends(&open, leaf_certs_server_at(m, "second.example", NOW, &e), "second.example",
		  TLS1_3_VERSION, NULL, NULL);
	SSL_set_verify(open.client, SSL_VERIFY_NONE, NULL);
	for (int i = 0; i < LEAF_CERTS_CACHE_MAX - 2; i++) {
		(void)snprintf(name, sizeof(name), "n%d.example", i);
		CHECK(leaf_certs_server_at(m, name, NOW, &e) != NULL);
	}
	cert = shown_for(m, "first.example", NOW); /* now the second is the oldest */
	CHECK(X509_cmp(first, cert) == 0);
	X509_free(cert);
	CHECK(leaf_certs_server_at(m, "one-more.example", NOW, &e) != NULL);
	cert = shown_for(m, "first.example", NOW);
	CHECK(X509_cmp(first, cert) == 0);
	X509_free(cert);
	CHECK(shake_hands(&open)); /* it left the cache with a connection open */
	tell_client(&open);
	close_ends(&open);
	cert = shown_for(m, "second.example", NOW);
	CHECK(X509_cmp(second, cert) != 0);
	X509_free(cert);
	X509_free(first);
	X509_free(second);
	leaf_certs_free(m);
}

static void names_are_no_language(void)
{
	struct leaf_certs *m = new_mint(NOW);
	X509 *cert = shown_for(m, "a.example,DNS:b.example", NOW);
	GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	struct err e = { 0 };
	char name[300];

	CHECK(sk_GENERAL_NAME_num(names) == 1);
	CHECK(X509_check_host(cert, "b.example", 0, 0, NULL) != 1);
	GENERAL_NAMES_free(names);
	X509_free(cert);
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK(leaf_certs_server(m, name, &e) == NULL && e.code == ERR_INVALID);
	CHECK(leaf_certs_server(m, "", &e) == NULL);
	leaf_certs_free(m);
	CHECK(leaf_certs_new("nonsense", &e) == NULL && e.code == ERR_INVALID);
}

/* With the program others use, and for the folder they look in. */
static void openssl_verifies_it(void)
{
	char dir[] = "/tmp/test_mint.XXXXXX", path[96], link[16], command[400],
	     pem[LEAF_CERTS_PEM_MAX];
	struct leaf_certs *m = new_mint((int64_t)time(NULL));
	X509 *cert = shown_for(m, "a.example", (int64_t)time(NULL));
	struct err e = { 0 };
	FILE *to;
	pid_t pid;
	int status = -1;

	CHECK(leaf_certs_ca_cert(ca_pem, pem, link, &e) == 0);
	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, link);
	to = fopen(path, "we");
	CHECK(to != NULL && fputs(pem, to) >= 0 && fclose(to) == 0);
	(void)snprintf(path, sizeof(path), "%s/cert.pem", dir);
	to = fopen(path, "we");
	CHECK(to != NULL && PEM_write_X509(to, cert) == 1 && fclose(to) == 0);
	(void)snprintf(command, sizeof(command),
		       "cd %s && openssl verify -x509_strict -purpose sslserver -no-CAfile "
		       "-no-CAstore -CApath . -verify_hostname a.example cert.pem >&2; "
		       "status=$?; rm -r %s; exit $status",
		       dir, dir);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	X509_free(cert);
	leaf_certs_free(m);
}

static void a_bundle_of_text_is_trusted(void)
{
	struct leaf_certs *m = new_mint((int64_t)time(NULL));
	char other[LEAF_CERTS_PEM_MAX], both[2 * LEAF_CERTS_PEM_MAX + 64];
	struct err e = { 0 };
	struct tls *trusting, *other_ca, *without_cas;
	char link[16], made[LEAF_CERTS_PEM_MAX];

	CHECK(leaf_certs_create_ca((int64_t)time(NULL), made, &e) == 0);
	CHECK(leaf_certs_ca_cert(made, other, link, &e) == 0);
	(void)snprintf(both, sizeof(both), "# some words\n%s\n# others\n%s", other, public_pem);
	trusting = tls_client_new_pem(both, strlen(both), &e);
	other_ca = tls_client_new_pem(other, strlen(other), &e);
	without_cas = tls_client_new_pem("# none\n", 7, &e);
	CHECK(without_cas != NULL && trusting != NULL && other_ca != NULL);
	for (int i = 0; i < 4; i++) {
		struct err at_client = { 0 }, at_server = { 0 };
		struct tls *t = i == 0 ? other_ca : i == 3 ? without_cas : trusting;
		bool client = false, server = false;
		struct tls_conn *a, *b;
		int socks[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, socks) == 0);
		a = tls_open(t, socks[0], i == 2 ? "b.example" : "a.example", &e);
		b = tls_open(leaf_certs_server(m, "a.example", &e), socks[1], NULL, &e);
		CHECK(a != NULL && b != NULL);
		for (int n = 0; n < 20 && !(client && server); n++) {
			client = client || tls_handshake(a, &at_client) == 0;
			server = server || tls_handshake(b, &at_server) == 0;
		}
		CHECK(client == (i == 1));
		CHECK(client || at_client.code == ERR_DENIED);
		tls_close(a);
		tls_close(b);
		(void)close(socks[0]);
		(void)close(socks[1]);
	}
	CHECK(tls_client_trust(other_ca, public_pem, strlen(public_pem), &e) == 0);
	CHECK(tls_client_new_pem(public_pem, strlen(public_pem) / 2, &e) == NULL);
	tls_free(trusting);
	tls_free(other_ca);
	tls_free(without_cas);
	leaf_certs_free(m);
}

static unsigned long compared;

/* In the place of libc's: counts. */
int strcmp(const char *a, const char *b);
int strcmp(const char *a, const char *b)
{
	compared++;
	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	return (unsigned char)*a - (unsigned char)*b;
}

/* Of the function that had no seed. */
static bool would_collide(const char *host)
{
	uint32_t hash = 2166136261U;

	for (; *host != '\0'; host++)
		hash = (hash ^ (unsigned char)*host) * 16777619U;
	return hash % 1024 == 0;
}

static void names_do_not_collide_by_choice(void)
{
	struct leaf_certs *m = new_mint(NOW);
	struct err e = { 0 };
	char host[32], first[32];
	unsigned made = 0;

	for (unsigned i = 0; made < 64; i++) {
		(void)snprintf(host, sizeof(host), "n%u.example", i);
		if (!would_collide(host))
			continue;
		if (made == 0)
			memcpy(first, host, sizeof(first));
		CHECK(leaf_certs_server_at(m, host, NOW, &e) != NULL);
		made++;
	}
	compared = 0;
	CHECK(leaf_certs_knows(m, first) && compared < 16);
	leaf_certs_free(m);
}

TEST_MAIN({ "strict_clients_take_it", strict_clients_take_it },
	  { "http1_or_nothing", http1_or_nothing },
	  { "a_ticket_is_good_for_its_name_only", a_ticket_is_good_for_its_name_only },
	  { "says_what_it_should", says_what_it_should },
	  { "is_made_again_in_time", is_made_again_in_time },
	  { "the_least_used_goes", the_least_used_goes },
	  { "names_are_no_language", names_are_no_language },
	  { "openssl_verifies_it", openssl_verifies_it },
	  { "a_bundle_of_text_is_trusted", a_bundle_of_text_is_trusted },
	  { "names_do_not_collide_by_choice", names_do_not_collide_by_choice })
