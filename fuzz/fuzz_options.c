/* Any words, each with its NUL, as those of `cordon run`: what is taken is within the bounds of the
 * keeper's protocol, what is refused says which option it was. */
#include "fuzz.h"

#include "cmd/run/run.h"
#include "cmd/run/run_options.h"

#define WORDS_MAX 300

unsigned long fuzz_accepted;

/* The table of verbs points to it. */
int run_main(int argc, char **argv)
{
	return 0;
}

static void check_options(const struct run_options *o)
{
	assert(o->profile < CELL_PROFILES);
	assert(o->memory >= 4U << 20 && o->memory <= INT64_MAX && o->disk > 0 &&
	       o->disk <= INT64_MAX);
	assert(o->cpus <= 1000000 && o->pids >= 2 && o->pids <= 4194304);
	assert(o->inodes >= 1 && o->inodes <= UINT32_MAX && o->nofile >= 1 && o->nofile <= 1048576);
	assert(strlen(o->hostname) < 64 && o->hostname[0] != '\0');
	assert(strlen(o->user) < 64 && (o->cwd[0] == '\0' || o->cwd[0] == '/'));
	assert(o->env.n <= OPTION_LIST_MAX && o->mounts.n <= CELL_MOUNTS_MAX);
	for (size_t i = 0; i < o->env.n; i++)
		assert(strchr(o->env.items[i], '=') > o->env.items[i]);
	for (size_t i = 0; i < o->mounts.n; i++) {
		const char *at = o->mount[i].at, *source = o->mount[i].source;

		assert(memchr(at, '\0', sizeof(o->mount[i].at)) != NULL && at[0] == '/' &&
		       at[1] != '\0');
		assert(memchr(source, '\0', sizeof(o->mount[i].source)) != NULL &&
		       source[0] != '\0');
	}
	for (size_t i = 0; i < o->mounts.n; i++) /* what the keeper will say, too */
		assert(cell_is_place(o->mount[i].at, sizeof(o->mount[i].at)));
	assert((o->limits_asked & ~(unsigned)CELL_LIMIT_ALL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run_options o;
	char *words[WORDS_MAX + 1], *argv[WORDS_MAX + 1];
	struct err e = { 0 };
	int argc = 0;

	for (size_t at = 0, n; at < size && argc < WORDS_MAX; at += n + 1) {
		const uint8_t *nul = memchr(data + at, '\0', size - at);

		n = nul == NULL ? size - at : (size_t)(nul - (data + at));
		argv[argc] = words[argc] = fuzz_text(data + at, n);
		argc++;
	}
	argv[argc] = NULL;
	if (run_options_parse(&o, argc, argv, &e) < 0) {
		assert(e.code != ERR_NONE);
		assert(strstr(e.msg, "--") != NULL || strstr(e.msg, "unknown option") != NULL);
	} else {
		assert(o.command >= argv && o.command <= argv + argc);
		assert(o.help || *o.command != NULL);
		if (!o.help)
			check_options(&o);
		fuzz_accepted++;
	}
	for (int i = 0; i < argc; i++) /* none was changed */
		assert(argv[i] == words[i]);
	for (int i = 0; i < argc; i++)
		free(words[i]);
	return 0;
}
