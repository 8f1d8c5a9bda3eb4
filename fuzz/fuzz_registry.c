/* Any bytes of a registry that cordon-pull itself reads; the first byte says as what: a challenge
 * is within its bounds, a token can be sent in a header, an address is https or loopback, and a
 * message of the channel is written as it was read. */
#include "fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pull/address.h"
#include "pull/challenge.h"
#include "lib/http/http1.h"
#include "lib/wire/pull_msg.h"
#include "pull/registry_json.h"

unsigned long fuzz_accepted;

static void try_challenge(const char *data, size_t size)
{
	const struct http1_header header = { { "WWW-Authenticate", 16 }, { data, size } };
	struct challenge c;

	challenge_read(&header, 1, &c);
	assert(memchr(c.realm, '\0', sizeof(c.realm)) != NULL);
	assert(memchr(c.scope, '\0', sizeof(c.scope)) != NULL);
	assert(c.kind != CHALLENGE_BEARER || c.realm[0] != '\0');
	fuzz_accepted += c.kind != CHALLENGE_NONE;
}

static void try_json(const char *data, size_t size)
{
	char code[REGISTRY_ERROR_MAX];
	char *token = registry_json_token(data, size), *ecr = registry_json_ecr(data, size);

	if (token != NULL)
		assert(http1_is_value(token, strlen(token)) && strlen(token) < REGISTRY_TOKEN_MAX);
	if (ecr != NULL)
		assert(http1_is_value(ecr, strlen(ecr)) && strlen(ecr) < REGISTRY_TOKEN_MAX);
	fuzz_accepted += ecr != NULL;
	free(ecr);
	registry_json_error(data, size, code);
	assert(code[0] == '\0' || http1_is_token(code, strlen(code)));
	fuzz_accepted += token != NULL || code[0] != '\0';
	free(token);
}

static void try_address(const char *data, size_t size)
{
	static const struct address from = {
		.tls = true, .host = "a.test", .port = 443, .target = "/"
	};
	struct address a, again;
	char url[ADDRESS_NAME_MAX + ADDRESS_TARGET_MAX + 16];
	struct err e = { 0 };

	if (address_follow(&from, data, size, &a, &e) < 0)
		return;
	assert(a.tls || address_is_loopback(&a));
	assert(a.target[0] == '/' && http1_is_target(a.target, strlen(a.target)));
	(void)snprintf(url, sizeof(url), "%s", a.tls ? "https://" : "http://");
	address_name(&a, url + strlen(url));
	memcpy(url + strlen(url), a.target, strlen(a.target) + 1);
	assert(address_read(url, strlen(url), &again, &e) == 0);
	assert(address_same_origin(&a, &again) && strcmp(a.target, again.target) == 0);
	fuzz_accepted++;
}

static void try_message(const uint8_t *data, size_t size)
{
	static uint8_t out[FRAME_HEAD + PULL_BODY_MAX];
	struct pull_msg m;
	struct frame f;
	struct err e;
	int n = frame_read(data, size, PULL_BODY_MAX, &f, &e);

	if (n <= 0 || pull_msg_read(&f, &m, &e) < 0 || m.code != 0)
		return;
	assert(pull_msg_write(&m, out, sizeof(out)) == n && memcmp(out, data, (size_t)n) == 0);
	fuzz_accepted++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 'c')
		try_challenge((const char *)data + 1, size - 1);
	else if (data[0] == 'j')
		try_json((const char *)data + 1, size - 1);
	else if (data[0] == 'a')
		try_address((const char *)data + 1, size - 1);
	else
		try_message(data + 1, size - 1);
	return 0;
}
