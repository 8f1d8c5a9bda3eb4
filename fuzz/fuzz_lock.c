/* Any bytes as each of the lockfiles; the first byte says as which. Pins have a normal name, a
 * version and at most LOCK_DIGESTS_MAX digests; an error names the file. */
#include "fuzz.h"

#include "lib/packages/lock.h"

unsigned long fuzz_accepted;

static const char *const names[] = { "package-lock.json", "yarn.lock",	 "pnpm-lock.yaml",
				     "requirements.txt",  "poetry.lock", "uv.lock",
				     "pylock.toml",	  "Cargo.lock",	 "go.sum",
				     "Gemfile.lock" };

static int on_pin(void *arg, const struct lock_pin *pin, struct err *e)
{
	char again[PACKAGE_NAME_MAX];

	assert(package_name_normal(pin->ecosystem, pin->name, strlen(pin->name), again));
	assert(strcmp(again, pin->name) == 0);
	assert(pin->version[0] != '\0' && strlen(pin->version) < PACKAGE_VERSION_MAX);
	assert(pin->ndigests <= LOCK_DIGESTS_MAX);
	for (size_t i = 0; i < pin->ndigests; i++)
		assert(digest_size(pin->digests[i].alg) > 0);
	fuzz_accepted++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	const char *name;
	char *text;

	if (size == 0)
		return 0;
	name = names[(size_t)(data[0] - '0') % (sizeof(names) / sizeof(names[0]))];
	text = fuzz_copy(data + 1, size - 1);
	if (lock_read(name, text, size - 1, on_pin, NULL, &e) < 0)
		assert(strncmp(e.msg, name, strlen(name)) == 0);
	free(text);
	return 0;
}
