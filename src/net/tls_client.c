/* tls_client.c - TLS contexts for clients: which CAs they verify servers by. Called through tls.h
 * by client.c and cordon-egress. */
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "tls.h"
#include "tls_ocsp.h"
#include "tls_private.h"

struct tls *tls_client_new(const char *ca_file, bool insecure, struct err *e)
{
	SSL_CTX *ctx = tls_context(TLS_client_method(), e);

	if (!ctx)
		return NULL;
	if (insecure)
		return tls_wrap(ctx, e);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if (ca_file ? SSL_CTX_load_verify_locations(ctx, ca_file, NULL) == 1
		    : SSL_CTX_set_default_verify_paths(ctx) == 1)
		return tls_wrap(ctx, e);
	(void)tls_failed(e, "cannot read the CA certificates", ca_file);
	SSL_CTX_free(ctx);
	return NULL;
}

/* Trusts every certificate of the text. OpenSSL's reader fails with "no start line" at its end. */
static int trust_all(X509_STORE *store, BIO *in, struct err *e)
{
	for (;;) {
		X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
		bool added = cert && X509_STORE_add_cert(store, cert) == 1;

		X509_free(cert);
		if (!cert)
			break;
		if (!added)
			return tls_failed(e, "a CA certificate cannot be used", NULL);
	}
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		return tls_failed(e, "a CA certificate cannot be read", NULL);
	ERR_clear_error();
	return 0;
}

int tls_client_trust(struct tls *t, const char *pem, size_t len, struct err *e)
{
	BIO *in = len > INT_MAX ? NULL : BIO_new_mem_buf(pem, (int)len);
	int result;

	if (!in)
		return err_set(e, ERR_LIMIT, "out of memory");
	result = trust_all(SSL_CTX_get_cert_store(t->ctx), in, e);
	BIO_free(in);
	return result;
}

struct tls *tls_client_new_pem(const char *pem, size_t len, struct err *e)
{
	static const unsigned char ours[] = "\x08http/1.1";
	SSL_CTX *ctx = tls_context(TLS_client_method(), e);
	struct tls *t = ctx ? tls_wrap(ctx, e) : NULL;

	if (!t)
		return NULL;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	/* In finite-field groups the server chooses the size, up to 10,000 bits: a second of work.
	 */
	if (SSL_CTX_set_cipher_list(ctx, "DEFAULT:!kDHE") != 1 ||
	    SSL_CTX_set_alpn_protos(ctx, ours, sizeof(ours) - 1) != 0 || tls_ocsp_require(ctx) < 0)
		(void)tls_failed(e, "cannot set up TLS", NULL);
	else if (tls_client_trust(t, pem, len, e) == 0)
		return t;
	tls_free(t);
	return NULL;
}
