/* Any Dockerfile, or any .dockerignore and path; the first byte says which. */
#include "fuzz.h"

#include "cmd/client/dockerfile.h"
#include "cmd/client/dockerignore.h"

unsigned long fuzz_accepted;

static void file(const char *text, size_t len)
{
	static const char *const args[] = { "A=1", "" };
	struct err e = { 0 };
	struct dockerfile d;
	int rc = dockerfile_read(text, len, args, 2, &d, &e);

	if (rc == 0) {
		assert(d.from != NULL && d.nsteps <= DOCKERFILE_STEPS_MAX);
		for (unsigned i = 0; i < d.nsteps; i++)
			assert(d.steps[i].argc > 0 && d.steps[i].line > 0);
	} else {
		assert(e.code != ERR_NONE && e.msg[0] != '\0');
	}
	fuzz_accepted += rc == 0;
	dockerfile_release(&d);
}

static void rules(const char *text, size_t len)
{
	static struct dockerignore d;

	if (!dockerignore_read(text, len, &d))
		return;
	fuzz_accepted++;
	for (size_t i = 0; i < d.n; i++)
		assert(d.rules[i].len > 0 && d.rules[i].pattern + d.rules[i].len <= text + len);
	(void)dockerignore_excludes(&d, "some/path/in.it");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *exact;

	if (size == 0)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	exact = fuzz_copy(data + 1, size - 1);
	if (data[0] == 'i')
		rules(exact, size - 1);
	else if (data[0] == 'p')
		(void)dockerignore_fits(text, "some/path/in.it");
	else
		file(exact, size - 1);
	free(exact);
	free(text);
	return 0;
}
