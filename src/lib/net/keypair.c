#include "lib/net/keypair.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#define SERIAL_BITS 127

void keypair_free(struct keypair *p)
{
	EVP_PKEY_free(p->key);
	X509_free(p->cert);
}

int keypair_failed(struct err *e, const char *what)
{
	unsigned long code = ERR_peek_last_error();
	const char *why = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return err_set(e, ERR_SYSTEM, "%s: %s", what, why ? why : "out of memory");
}

/* ---- texts */

static int keypair_no_password(char *buf, int size, int rwflag, void *arg)
{
	return -1;
}

/* Do public and private key belong together? Comparing the key with a certificate checks one of
 * them only. */
static bool keypair_is_whole(EVP_PKEY *key)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
	bool whole = ctx != NULL && EVP_PKEY_pairwise_check(ctx) == 1;

	EVP_PKEY_CTX_free(ctx);
	return whole;
}

int keypair_read(const char *pem, struct keypair *ret, struct err *e)
{
	BIO *in = BIO_new_mem_buf(pem, (int)strnlen(pem, KEYPAIR_PEM_MAX));
	int result = -1;

	if (in != NULL)
		ret->key = PEM_read_bio_PrivateKey(in, NULL, keypair_no_password, NULL);
	if (ret->key != NULL)
		ret->cert = PEM_read_bio_X509(in, NULL, keypair_no_password, NULL);
	if (ret->cert == NULL || X509_check_private_key(ret->cert, ret->key) != 1 ||
	    !keypair_is_whole(ret->key))
		(void)err_set(e, ERR_INVALID, "it is not a private key with its certificate");
	else
		result = 0;
	ERR_clear_error();
	BIO_free(in);
	return result;
}

int keypair_write(EVP_PKEY *key, X509 *cert, char ret_pem[KEYPAIR_PEM_MAX], struct err *e)
{
	BIO *out = BIO_new(BIO_s_secmem());
	int n = -1;

	if (out != NULL &&
	    (key == NULL || PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1) &&
	    PEM_write_bio_X509(out, cert) == 1)
		n = BIO_read(out, ret_pem, KEYPAIR_PEM_MAX);
	BIO_free(out);
	if (n <= 0)
		return keypair_failed(e, "write a certificate");
	if (n == KEYPAIR_PEM_MAX)
		return err_set(e, ERR_LIMIT, "a certificate of more than %d bytes", n - 1);
	ret_pem[n] = '\0';
	return 0;
}

/* ---- extensions */

X509_EXTENSION *keypair_extension(const struct keypair_extension *x, X509 *issuer, X509 *subject)
{
	X509V3_CTX context;

	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, issuer, subject, NULL, NULL, 0);
	return X509V3_EXT_conf_nid(NULL, &context, x->nid, x->value);
}

static bool keypair_extend(X509 *cert, X509 *issuer, const struct keypair_extension *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		X509_EXTENSION *made = keypair_extension(&all[i], issuer, cert);
		bool added = made != NULL && X509_add_ext(cert, made, -1) == 1;

		X509_EXTENSION_free(made);
		if (!added)
			return false;
	}
	return true;
}

/* ---- certificates */

static bool keypair_set_serial(X509 *cert)
{
	BIGNUM *number = BN_new();
	bool set = number != NULL &&
		   BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
		   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;

	BN_free(number);
	return set;
}

static bool keypair_set_times(X509 *cert, int64_t now, int days)
{
	time_t at = (time_t)now;

	return X509_time_adj_ex(X509_getm_notBefore(cert), 0, -KEYPAIR_EARLIER, &at) != NULL &&
	       X509_time_adj_ex(X509_getm_notAfter(cert), days, 0, &at) != NULL;
}

static bool keypair_set_name(X509_NAME *name, const char *text)
{
	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)text,
					  -1, -1, 0) == 1;
}

int keypair_make(const char *name, int64_t now, int days, struct keypair *ret, struct err *e)
{
	if (ret->key == NULL)
		ret->key = EVP_EC_gen("P-256");
	ret->cert = X509_new();
	if (ret->key == NULL || ret->cert == NULL ||
	    X509_set_version(ret->cert, X509_VERSION_3) != 1 || !keypair_set_serial(ret->cert) ||
	    !keypair_set_times(ret->cert, now, days) || X509_set_pubkey(ret->cert, ret->key) != 1 ||
	    !keypair_set_name(X509_get_subject_name(ret->cert), name))
		return keypair_failed(e, "make a certificate");
	return 0;
}

bool keypair_sign(struct keypair *p, const struct keypair *issuer,
		  const struct keypair_extension *all, size_t n)
{
	return X509_set_issuer_name(p->cert, X509_get_subject_name(issuer->cert)) == 1 &&
	       keypair_extend(p->cert, issuer->cert, all, n) &&
	       X509_sign(p->cert, issuer->key, EVP_sha256()) != 0;
}
