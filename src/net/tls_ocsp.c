/* tls_ocsp.c - theory of operation
 *
 * OpenSSL calls on_response() for every handshake whose server has proved that it has the key of
 * its certificate, after the chain was verified: with the stapled response, or with none. The
 * response comes from the server, and counts only if its signer is the issuer of the certificate,
 * or has a certificate of the issuer for this purpose (OCSP_basic_verify() checks both). No
 * responder is asked over the network: egress connects to what the policy allows, and to nothing
 * else. */
#include "tls_ocsp.h"

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/x509v3.h>
#include <stdbool.h>

#define STATUS_REQUEST 5       /* the number of the TLS extension */
#define ANSWERS_MAX 16	       /* of one response: one is usual */
#define SKEW_S 300	       /* between clocks */
#define UNDATED_S (7L * 86400) /* a response that says no end is current for so long */

enum status { NONE, GOOD, REVOKED };

static bool must_staple(X509 *cert)
{
	TLS_FEATURE *features = X509_get_ext_d2i(cert, NID_tlsfeature, NULL, NULL);
	bool found = false;

	for (int i = 0; features && i < sk_ASN1_INTEGER_num(features); i++)
		if (ASN1_INTEGER_get(sk_ASN1_INTEGER_value(features, i)) == STATUS_REQUEST)
			found = true;
	TLS_FEATURE_free(features);
	return found;
}

/* Is the answer about this certificate? It names it by hashes, with an algorithm of its choice. */
static bool is_about(OCSP_SINGLERESP *answer, X509 *cert, X509 *issuer)
{
	const OCSP_CERTID *named = OCSP_SINGLERESP_get0_id(answer);
	OCSP_CERTID *copy = OCSP_CERTID_dup(named), *own = NULL;
	ASN1_OBJECT *algorithm = NULL;
	bool same = false;

	if (copy && OCSP_id_get0_info(NULL, &algorithm, NULL, NULL, copy) == 1)
		own = OCSP_cert_to_id(EVP_get_digestbyobj(algorithm), cert, issuer);
	same = own && OCSP_id_cmp(own, copy) == 0;
	OCSP_CERTID_free(own);
	OCSP_CERTID_free(copy);
	return same;
}

static enum status status_of(OCSP_SINGLERESP *answer)
{
	ASN1_GENERALIZEDTIME *from = NULL, *until = NULL;
	int status = OCSP_single_get0_status(answer, NULL, NULL, &from, &until);

	if (status == V_OCSP_CERTSTATUS_REVOKED)
		return REVOKED; /* also if it is not current */
	if (status != V_OCSP_CERTSTATUS_GOOD ||
	    OCSP_check_validity(from, until, SKEW_S, until ? -1 : UNDATED_S) != 1)
		return NONE;
	return GOOD;
}

static enum status read_basic(OCSP_BASICRESP *basic, SSL *ssl, X509 *cert)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	X509_STORE *store = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl));
	X509 *issuer = chain && sk_X509_num(chain) > 1 ? sk_X509_value(chain, 1) : cert;
	int n = OCSP_resp_count(basic);

	if (n > ANSWERS_MAX || OCSP_basic_verify(basic, chain, store, 0) != 1)
		return NONE;
	for (int i = 0; i < n; i++)
		if (is_about(OCSP_resp_get0(basic, i), cert, issuer))
			return status_of(OCSP_resp_get0(basic, i));
	return NONE;
}

static enum status read_stapled(SSL *ssl, X509 *cert)
{
	const unsigned char *bytes = NULL;
	long n = SSL_get_tlsext_status_ocsp_resp(ssl, &bytes);
	OCSP_RESPONSE *response = n > 0 ? d2i_OCSP_RESPONSE(NULL, &bytes, n) : NULL;
	OCSP_BASICRESP *basic = response ? OCSP_response_get1_basic(response) : NULL;
	enum status status = basic ? read_basic(basic, ssl, cert) : NONE;

	OCSP_BASICRESP_free(basic);
	OCSP_RESPONSE_free(response);
	ERR_clear_error();
	return status;
}

/* 1: the handshake goes on; 0: it fails. */
static int on_response(SSL *ssl, void *arg)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);
	enum status status = cert ? read_stapled(ssl, cert) : NONE;

	(void)arg;
	if (status == GOOD || (status == NONE && cert && !must_staple(cert)))
		return 1;
	SSL_set_verify_result(ssl, status == REVOKED ? X509_V_ERR_CERT_REVOKED
						     : X509_V_ERR_OCSP_VERIFY_NEEDED);
	return 0;
}

int tls_ocsp_require(SSL_CTX *ctx)
{
	if (SSL_CTX_set_tlsext_status_type(ctx, TLSEXT_STATUSTYPE_ocsp) != 1 ||
	    SSL_CTX_set_tlsext_status_cb(ctx, on_response) != 1)
		return -1;
	return 0;
}
