/* tls.c - OpenSSL 3 behind read- and write-like functions. Renegotiation is off, so that after the
 * handshake reads only wait for input and writes only for room. */
#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "tls_socket.h"
#include "tls_x509.h"

struct tls {
	SSL_CTX *ctx;
	BIO_METHOD *socket;
	bool borrows; /* the socket's method: OpenSSL has numbers for about a hundred of them */
	X509 *cert;   /* shown instead of the context's; NULL: none */
	EVP_PKEY *key;
};

struct tls_conn {
	SSL *ssl;
	bool wants_write;
	bool broken; /* no goodbye after an error */
};

/* Moves OpenSSL's first error, the cause of the others, into e; its queue is empty afterwards. */
static int failed(struct err *e, const char *what, const char *name)
{
	unsigned long code = ERR_peek_error();
	const char *why = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return err_set(e, ERR_INVALID, "%s%s%s: %s", what, name ? " " : "", name ? name : "",
		       why ? why : "no reason given");
}

/* ---- contexts */

static SSL_CTX *new_context(const SSL_METHOD *method, struct err *e)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION)) {
		(void)failed(e, "cannot set up TLS", NULL);
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_CLEANSE_PLAINTEXT); /* there may be secrets in it */
	/* RELEASE_BUFFERS: idle connections keep none of OpenSSL's 34 KiB. */
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	/* With it a read goes on as long as messages come that hold no data. A peer has a million
	 * of them (new keys, tickets) ready, and nobody else would be served meanwhile. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return ctx;
}

/* A client that offers protocols gets HTTP/1.1, or no connection if it is not among them. */
static int choose_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
			   const unsigned char *offered, unsigned len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, ret_len, ours, sizeof(ours) - 1, offered, len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* A key that needs a password is refused; OpenSSL would ask the terminal for it. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	*(bool *)arg = true;
	return -1;
}

/* The certificate is there already. */
static int use_key(SSL_CTX *ctx, const char *key_file, struct err *e)
{
	bool locked = false, used;

	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	SSL_CTX_set_default_passwd_cb_userdata(ctx, &locked);
	used = SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) == 1;
	SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
	if (used && SSL_CTX_check_private_key(ctx) == 1)
		return 0;
	if (locked) {
		ERR_clear_error();
		return err_set(e, ERR_INVALID, "the key cannot be used: it needs a password");
	}
	if (!used && ERR_GET_LIB(ERR_peek_last_error()) != ERR_LIB_X509)
		return failed(e, "the key cannot be used", NULL);
	ERR_clear_error();
	return err_set(e, ERR_INVALID, "the key is not that of the certificate");
}

static void set_server_rules(SSL_CTX *ctx)
{
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	/* Requests say themselves where they end. A client must notice, though. */
	SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
}

static SSL_CTX *server_context(const char *chain_file, const char *key_file, struct err *e)
{
	SSL_CTX *ctx = new_context(TLS_server_method(), e);

	if (!ctx)
		return NULL;
	if (SSL_CTX_use_certificate_chain_file(ctx, chain_file) != 1)
		(void)failed(e, "the certificate cannot be used", NULL);
	else if (use_key(ctx, key_file, e) == 0) {
		set_server_rules(ctx);
		return ctx;
	}
	SSL_CTX_free(ctx);
	return NULL;
}

static struct tls *wrap(SSL_CTX *ctx, struct err *e)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (t)
		t->socket = tls_socket_method();
	if (!t || !t->socket) {
		(void)err_set(e, ERR_LIMIT, "no memory for TLS");
		SSL_CTX_free(ctx);
		free(t);
		return NULL;
	}
	t->ctx = ctx;
	return t;
}

struct tls *tls_server_new(const char *chain_file, const char *key_file, struct err *e)
{
	SSL_CTX *ctx = server_context(chain_file, key_file, e);

	return ctx ? wrap(ctx, e) : NULL;
}

struct tls *tls_server_bare(struct err *e)
{
	SSL_CTX *ctx = new_context(TLS_server_method(), e);

	if (!ctx)
		return NULL;
	set_server_rules(ctx);
	return wrap(ctx, e);
}

struct tls *tls_server_like(struct tls *bare, X509 *cert, EVP_PKEY *key, struct err *e)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (!t || SSL_CTX_up_ref(bare->ctx) != 1) {
		(void)err_set(e, ERR_LIMIT, "no memory for TLS");
		free(t);
		return NULL;
	}
	*t = (struct tls){ bare->ctx, bare->socket, true, cert, key };
	(void)X509_up_ref(cert);
	(void)EVP_PKEY_up_ref(key);
	return t;
}

int tls_server_renew(struct tls *t, const char *chain_file, const char *key_file, struct err *e)
{
	SSL_CTX *ctx = server_context(chain_file, key_file, e);

	if (!ctx)
		return -1;
	SSL_CTX_free(t->ctx); /* connections hold it as long as they live */
	t->ctx = ctx;
	return 0;
}

const char *tls_server_flaw(const struct tls *t, const char *host)
{
	X509 *cert = SSL_CTX_get0_certificate(t->ctx);
	const char *flaw = NULL;

	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		flaw = "it is not valid yet";
	else if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
		flaw = "it has expired";
	else if (X509_check_host(cert, host, strlen(host), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS,
				 NULL) != 1)
		flaw = "it is for other names";
	ERR_clear_error();
	return flaw;
}

struct tls *tls_client_new(const char *ca_file, bool insecure, struct err *e)
{
	SSL_CTX *ctx = new_context(TLS_client_method(), e);

	if (!ctx)
		return NULL;
	if (insecure)
		return wrap(ctx, e);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if (ca_file ? SSL_CTX_load_verify_locations(ctx, ca_file, NULL) == 1
		    : SSL_CTX_set_default_verify_paths(ctx) == 1)
		return wrap(ctx, e);
	(void)failed(e, "cannot read the authorities", ca_file);
	SSL_CTX_free(ctx);
	return NULL;
}

/* Every certificate of the text. OpenSSL's reader says "no start line" at the end of it. */
static int trust_all(X509_STORE *store, BIO *in, struct err *e)
{
	for (;;) {
		X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
		bool added = cert && X509_STORE_add_cert(store, cert) == 1;

		X509_free(cert);
		if (!cert)
			break;
		if (!added)
			return failed(e, "an authority cannot be used", NULL);
	}
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		return failed(e, "an authority cannot be read", NULL);
	ERR_clear_error();
	return 0;
}

int tls_client_trust(struct tls *t, const char *pem, size_t len, struct err *e)
{
	BIO *in = len > INT_MAX ? NULL : BIO_new_mem_buf(pem, (int)len);
	int result;

	if (!in)
		return err_set(e, ERR_LIMIT, "no memory for authorities");
	result = trust_all(SSL_CTX_get_cert_store(t->ctx), in, e);
	BIO_free(in);
	return result;
}

struct tls *tls_client_new_pem(const char *pem, size_t len, struct err *e)
{
	static const unsigned char ours[] = "\x08http/1.1";
	SSL_CTX *ctx = new_context(TLS_client_method(), e);
	struct tls *t = ctx ? wrap(ctx, e) : NULL;

	if (!t)
		return NULL;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	/* Finite-field groups are the server's choice, of up to 10,000 bits: a second of work. */
	if (SSL_CTX_set_cipher_list(ctx, "DEFAULT:!kDHE") != 1 ||
	    SSL_CTX_set_alpn_protos(ctx, ours, sizeof(ours) - 1) != 0)
		(void)failed(e, "cannot set up TLS", NULL);
	else if (tls_client_trust(t, pem, len, e) == 0)
		return t;
	tls_free(t);
	return NULL;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	if (!t->borrows)
		BIO_meth_free(t->socket);
	X509_free(t->cert);
	EVP_PKEY_free(t->key);
	free(t);
}

/* ---- connections */

/* Who the certificate must be for; without SSL_set1_host() any certificate would do. */
static bool expect_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	char name[256]; /* OpenSSL's macro wants one that is not const */
	size_t len = strlen(host);

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len + 1);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* Tickets are good for the certificate they were given with. */
static bool show(SSL *ssl, struct tls *t)
{
	unsigned char id[SSL_MAX_SID_CTX_LENGTH];
	unsigned n = sizeof(id);

	if (!t->cert)
		return true;
	return X509_digest(t->cert, EVP_sha256(), id, &n) == 1 &&
	       SSL_set_session_id_context(ssl, id, n) == 1 &&
	       SSL_use_cert_and_key(ssl, t->cert, t->key, NULL, 1) == 1;
}

struct tls_conn *tls_open(struct tls *t, int fd, const char *host, struct err *e)
{
	struct tls_conn *c = calloc(1, sizeof(*c));
	BIO *bio = NULL;

	if (!c)
		goto undo;
	c->ssl = SSL_new(t->ctx);
	bio = BIO_new(t->socket);
	if (!c->ssl || !bio)
		goto undo;
	BIO_set_data(bio, (void *)(intptr_t)fd);
	BIO_set_init(bio, 1);
	if (host ? !expect_host(c->ssl, host) : !show(c->ssl, t))
		goto undo;
	SSL_set_bio(c->ssl, bio, bio);
	if (host)
		SSL_set_connect_state(c->ssl);
	else
		SSL_set_accept_state(c->ssl);
	return c;
undo:
	(void)failed(e, "cannot open a TLS connection", NULL);
	BIO_free(bio);
	if (c)
		SSL_free(c->ssl);
	free(c);
	return NULL;
}

void tls_close(struct tls_conn *c)
{
	if (!c)
		return;
	if (!c->broken && SSL_is_init_finished(c->ssl))
		(void)SSL_shutdown(c->ssl);
	ERR_clear_error();
	SSL_free(c->ssl);
	free(c);
}

void tls_break(struct tls_conn *c)
{
	c->broken = true;
}

/* Translates a result <= 0 into errno. Returns 0 at the end of the input, else -1. */
static int give_up(struct tls_conn *c, int result)
{
	int reason = SSL_get_error(c->ssl, result);
	int saved = errno;

	c->wants_write = reason == SSL_ERROR_WANT_WRITE;
	switch (reason) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		ERR_clear_error();
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		c->broken = true;
		errno = saved ? saved : ECONNRESET;
		return -1;
	default:
		c->broken = true;
		errno = EPROTO;
		return -1;
	}
}

ssize_t tls_read(struct tls_conn *c, void *buf, size_t cap)
{
	int n;

	errno = 0;
	ERR_clear_error(); /* SSL_get_error() looks at what others left in the queue */
	n = SSL_read(c->ssl, buf, cap > INT_MAX ? INT_MAX : (int)cap);
	if (n > 0) {
		c->wants_write = false;
		return n;
	}
	n = give_up(c, n);
	ERR_clear_error();
	return n;
}

ssize_t tls_write(struct tls_conn *c, const void *data, size_t len)
{
	int n;

	errno = 0;
	ERR_clear_error();
	n = SSL_write(c->ssl, data, len > INT_MAX ? INT_MAX : (int)len);
	if (n > 0) {
		c->wants_write = false;
		return n;
	}
	if (give_up(c, n) == 0)
		errno = EPIPE;
	ERR_clear_error();
	return -1;
}

int tls_shut(struct tls_conn *c)
{
	int n;

	errno = 0;
	ERR_clear_error();
	n = SSL_shutdown(c->ssl);
	if (n >= 0) { /* 0: the peer has not said so, too */
		c->wants_write = false;
		return 0;
	}
	if (give_up(c, n) == 0)
		errno = EPIPE;
	ERR_clear_error();
	return -1;
}

int tls_handshake(struct tls_conn *c, struct err *e)
{
	long verdict;
	int n;

	errno = 0;
	ERR_clear_error();
	n = SSL_do_handshake(c->ssl);
	if (n == 1) {
		c->wants_write = false;
		return 0;
	}
	if (give_up(c, n) < 0 && errno == EAGAIN)
		return -1;
	verdict = SSL_get_verify_result(c->ssl);
	if (verdict != X509_V_OK)
		(void)err_set(e, ERR_DENIED, "the server's certificate: %s",
			      X509_verify_cert_error_string(verdict));
	else
		(void)failed(e, "TLS handshake", NULL);
	ERR_clear_error();
	errno = EPROTO;
	return -1;
}

bool tls_wants_write(const struct tls_conn *c)
{
	return c->wants_write;
}

bool tls_is_established(const struct tls_conn *c)
{
	return SSL_is_init_finished(c->ssl);
}

bool tls_has_pending(const struct tls_conn *c)
{
	return SSL_pending(c->ssl) > 0;
}
