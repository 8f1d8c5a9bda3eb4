/* Any bytes, as a store that gets a certificate, as a certificate that a store gets, and as the
 * text of an authority: what is made of a store has one entry more, the old ones as they were, and
 * can be added to again; what is read of an authority has no key and no place for its link but a
 * name. */
#include "fuzz.h"

#include "cell/template/node_ca.h"
#include "cell/template/keystore.h"
#include "lib/base/sha1.h"

unsigned long fuzz_accepted;

#define CERT "-----BEGIN CERTIFICATE-----\nY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n"

/* Behind the bytes the sum that they should have, so that it is not all that is ever tested. */
static uint8_t *with_sum(const uint8_t *data, size_t size)
{
	static const char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
	uint8_t *all = malloc(sizeof(salt) + size + SHA1_SIZE), *store;

	assert(all != NULL);
	memcpy(all, salt, sizeof(salt) - 1);
	memcpy(all + sizeof(salt) - 1, data, size);
	sha1_digest(all, sizeof(salt) - 1 + size, all + sizeof(salt) - 1 + size);
	store = fuzz_copy(all + sizeof(salt) - 1, size + SHA1_SIZE);
	free(all);
	return store;
}

static void check_store(const uint8_t *data, size_t size, const char *cert)
{
	uint8_t *store = with_sum(data, size), *made = NULL, *again = NULL;
	size_t made_len = 0, again_len = 0;
	struct err e = { 0 };

	if (keystore_add(store, size + SHA1_SIZE, "a", cert, &made, &made_len, &e) == 0) {
		fuzz_accepted++;
		assert(made_len > size + SHA1_SIZE && memcmp(made, store, 8) == 0);
		assert(memcmp(made + 12, store + 12, size - 12) == 0);
		assert(keystore_add(made, made_len, "b", CERT, &again, &again_len, &e) == 0);
		free(again);
		free(made);
	} else {
		assert(e.code == ERR_UNSUPPORTED || e.code == ERR_INVALID);
	}
	free(store);
}

static void check_authority(const uint8_t *data, size_t size)
{
	char *exact = fuzz_copy(data, size);
	struct node_ca a = { .fd = 7 };
	struct err e = { 0 };

	if (node_ca_read(exact, size, &a, &e) == 0) {
		fuzz_accepted++;
		assert(a.fd == -1 && strlen(a.link) == 10 && strchr(a.link, '/') == NULL);
		assert(strncmp(a.cert, CERT, 28) == 0 && strlen(a.cert) < size);
		assert(strstr(a.cert + 1, "-----BEGIN CERTIFICATE-----\n") == NULL);
	} else {
		assert(e.code == ERR_INVALID && a.fd == 7);
	}
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t empty[] = { 0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 0 };
	char *text = fuzz_text(data, size);
	uint8_t *bytes = fuzz_copy(data, size), *made = NULL;
	size_t made_len = 0;
	struct err e = { 0 };

	check_store(data, size, CERT);
	check_store(empty, sizeof(empty), text);
	check_authority(data, size);
	if (keystore_add(bytes, size, "a", CERT, &made, &made_len, &e) == 0)
		free(made);
	free(bytes);
	free(text);
	return 0;
}
