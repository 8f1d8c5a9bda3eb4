/* tls_server.c - TLS contexts for servers: with a certificate from a file (tls.h), or one made by
 * leaf_certs.c (tls_x509.h). */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "tls.h"
#include "tls_private.h"
#include "tls_x509.h"

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

/* Refuses a key that needs a password; OpenSSL would ask for it at the terminal. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	*(bool *)arg = true;
	return -1;
}

/* The certificate was read before. */
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
		return tls_failed(e, "the key cannot be used", NULL);
	ERR_clear_error();
	return err_set(e, ERR_INVALID, "the key is not that of the certificate");
}

static void set_server_rules(SSL_CTX *ctx)
{
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	/* The end of a request is in its framing, so a missing close_notify does not matter. A
	 * client must notice it. */
	SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
}

static SSL_CTX *server_context(const char *chain_file, const char *key_file, struct err *e)
{
	SSL_CTX *ctx = tls_context(TLS_server_method(), e);

	if (!ctx)
		return NULL;
	if (SSL_CTX_use_certificate_chain_file(ctx, chain_file) != 1)
		(void)tls_failed(e, "the certificate cannot be used", NULL);
	else if (use_key(ctx, key_file, e) == 0) {
		set_server_rules(ctx);
		return ctx;
	}
	SSL_CTX_free(ctx);
	return NULL;
}

struct tls *tls_server_new(const char *chain_file, const char *key_file, struct err *e)
{
	SSL_CTX *ctx = server_context(chain_file, key_file, e);

	return ctx ? tls_wrap(ctx, e) : NULL;
}

struct tls *tls_server_bare(struct err *e)
{
	SSL_CTX *ctx = tls_context(TLS_server_method(), e);

	if (!ctx)
		return NULL;
	set_server_rules(ctx);
	return tls_wrap(ctx, e);
}

struct tls *tls_server_like(struct tls *bare, X509 *cert, EVP_PKEY *key, struct err *e)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (!t || SSL_CTX_up_ref(bare->ctx) != 1) {
		(void)err_set(e, ERR_LIMIT, "out of memory for TLS");
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
	SSL_CTX_free(t->ctx); /* connections keep a reference */
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
	else if (X509_check_host(cert, host, strlen(host),
				 X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
					 X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
				 NULL) != 1)
		flaw = "it is for other names";
	ERR_clear_error();
	return flaw;
}
