#include "cmd/run/run_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cell/kernel/guest_files.h"
#include "cmd/run/run.h"
#include "lib/wire/cell_level.h"

/* ---- the table of options. Help, manual page and completion read it, and run_options_parse()
 * fills struct run_options by its offsets. The bounds of numbers are here. Bounds that depend on
 * other options are in check_words(). */
#define DEFAULT_UID 1000
#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define TIB (1ULL << 40)

#define FIELD(name) offsetof(struct run_options, name)

/* clang-format off */
static const struct option options[] = {
	{ "template", "NAME", OPTION_TEXT, FIELD(template), 0, 0,
	  "files of the cell; host: this machine's /usr (default); microvm: also DIR or an image", .values = "host" },
	{ "profile", "NAME", OPTION_TEXT, FIELD(profile_name), 0, 0,
	  "standard: sudo works inside (default); locked: one user only", .values = "standard locked" },
	{ "level", "NAME", OPTION_TEXT, FIELD(level), 0, 0,
	  "kind of isolation: container (default), gvisor or microvm", .values = "container gvisor microvm" },
	{ "runsc", "FILE", OPTION_TEXT, FIELD(runsc), 0, 0,
	  "program of gVisor, for --level gvisor (default: the machine's)" },
	{ "state-dir", "DIR", OPTION_TEXT, FIELD(state_dir), 0, 0,
	  "where `cordon guest install` put the kernel, for microvm (default " GUEST_STATE_DIR ")" },
	{ "memory", "SIZE", OPTION_BYTES, FIELD(memory), 4 * MIB, 64 * TIB,
	  "memory, files written included (default 1G)" },
	{ "cpus", "NUMBER", OPTION_MILLIS, FIELD(cpus), 10, 1000000,
	  "number of processors, such as 0.5 or 2 (default: no limit)" },
	{ "pids", "COUNT", OPTION_COUNT, FIELD(pids), 2, 4194304,
	  "processes and threads at a time (default 1024)" },
	{ "disk", "SIZE", OPTION_BYTES, FIELD(disk), 64 * KIB, 64 * TIB,
	  "bytes in files written, /tmp and /dev/shm included (default: 3/4 of the memory)" },
	{ "inodes", "COUNT", OPTION_COUNT, FIELD(inodes), 64, 4294967000ULL,
	  "number of files written, about 20 made by Cordon included (default 131072)" },
	{ "nofile", "COUNT", OPTION_COUNT, FIELD(nofile), 16, 1048576,
	  "open files of one process (default 16384, or the limit of the caller)" },
	{ "timeout", "TIME", OPTION_TIME, FIELD(timeout_ms), 1, 366ULL * 86400000,
	  "how long the command may run, such as 30s (default: no limit)" },
	{ "boot-timeout", "TIME", OPTION_TIME, FIELD(boot_ms), 1000, 3600000,
	  "how long the guest of --level gvisor or microvm may take to start (default 60s)" },
	{ "output-limit", "SIZE", OPTION_BYTES, FIELD(output_limit), 1, 64 * TIB,
	  "bytes of output passed on; then the pipe closes (default: no limit)" },
	{ "user", "NAME", OPTION_TEXT, FIELD(user), 0, 0,
	  "user in the cell: user (default), root, or any other there", 'u' },
	{ "cwd", "DIR", OPTION_TEXT, FIELD(cwd), 0, 0,
	  "directory to start in (default: the user's home)", 'w' },
	{ "env", "K=V", OPTION_LIST, FIELD(env), 0, 0,
	  "sets a variable; the caller's environment is not passed on", 'e' },
	{ "hostname", "NAME", OPTION_TEXT, FIELD(hostname), 0, 0,
	  "host name in the cell (default cordon, the only one in its /etc/hosts)" },
	{ "mount", "SRC:DST[:ro|rw]", OPTION_LIST, FIELD(mounts), 0, 0,
	  "mounts a directory or file in the cell, read-only unless rw; sockets in it can be used" },
	{ "mount-unsafe", NULL, OPTION_FLAG, FIELD(mount_unsafe), 0, 0,
	  "lets --mount name folders that open the machine: /, /etc, /run, homes" },
	{ "allow", "HOST[:PORT][/PATH]", OPTION_LIST, FIELD(allow), 0, 0,
	  "lets the command reach a host: pypi.org, *.example.com, api.host/v1 (default: none)" },
	{ "deny", "HOST", OPTION_LIST, FIELD(deny), 0, 0,
	  "refuses a host that would be allowed otherwise" },
	{ "policy", "FILE|PRESET,...", OPTION_TEXT, FIELD(policy), 0, 0,
	  "network policy, applied after --deny and --allow: JSON file, or presets (pypi,npm)", .values = "@presets" },
	{ "allow-private", "CIDR", OPTION_LIST, FIELD(allow_private), 0, 0,
	  "private addresses that allowed names may resolve to and rules may allow" },
	{ "net-log", "FILE|-", OPTION_TEXT, FIELD(net_log), 0, 0,
	  "network records, a line of JSON each; -: printed to stderr at the end" },
	{ "egress-ca", "FILE", OPTION_TEXT, FIELD(egress_ca), 0, 0,
	  "certificate authorities (PEM) to trust in addition to those of this machine" },
	{ "tty", NULL, OPTION_FLAG, FIELD(tty), 0, 0,
	  "gives the command a terminal", 't' },
	{ "interactive", NULL, OPTION_FLAG, FIELD(interactive), 0, 0,
	  "changes nothing: input is always passed on; so that -it works here, too", 'i' },
	{ "read-only", NULL, OPTION_FLAG, FIELD(read_only), 0, 0,
	  "only /tmp, /dev/shm, /home/user and (for root) /run are writable" },
	{ "diff", NULL, OPTION_FLAG, FIELD(diff), 0, 0,
	  "prints at the end what the command changed in the file system" },
	{ "result", "FILE", OPTION_TEXT, FIELD(result), 0, 0,
	  "writes the result as one JSON object; -: to standard output" },
	{ "best-effort", NULL, OPTION_FLAG, FIELD(best_effort), 0, 0,
	  "continues without limits that this user cannot set here" },
	{ "help", NULL, OPTION_FLAG, FIELD(help), 0, 0,
	  "shows this help" },
};
/* clang-format on */

/* The option's bit in the set of given ones: its place in the table. */
static uint64_t bit_of(size_t offset)
{
	for (size_t i = 0; i < COUNT(options); i++)
		if (options[i].offset == offset)
			return 1ULL << i;
	return 0;
}

const struct verb run_verb = {
	.name = "run",
	.usage = "[options] -- command [args]",
	.summary = "Runs one command in a cell of its own and passes its input, output and exit "
		   "code through.",
	.text = "exit code: the command's own; 128+n if it was killed by signal n; 124 timeout;\n"
		"137 out of memory; 125 Cordon itself failed; 126 not executable; 127 not found;\n"
		"2 wrong options or policy: nothing was started.\n",
	.examples =
		"cordon run -- python3 -c 'print(1 + 1)'\n"
		"cordon run --memory 512M --timeout 30s --mount ./src:/work -w /work -- make test\n"
		"cordon run --policy pypi --net-log - -- pip download requests\n"
		"cordon run --level gvisor --diff -t -- bash\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_main,
};

/* The name stays in the structure for messages. From here on only the number counts. */
static int parse_profile(struct run_options *o, struct err *e)
{
	o->profile = cell_profile_find(o->profile_name);
	if (o->profile == CELL_PROFILES)
		return err_set(e, ERR_INVALID, "--profile: '%.40s' is neither standard nor locked",
			       o->profile_name);
	return 0;
}

/* Whole components only: /procfs is not below /proc. */
static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* SRC:DST[:ro|rw]. DST begins at the first ":/" so that a source may contain colons. */
static int parse_mount(struct run_options *o, size_t i, struct err *e)
{
	const char *text = o->mounts.items[i], *colon = strstr(text, ":/");
	const char *mode = NULL;
	size_t n;

	if (colon == NULL || colon == text)
		return err_set(e, ERR_INVALID,
			       "--mount: '%.80s' is not SRC:DST[:ro|rw] with DST absolute", text);
	n = strlen(colon + 1);
	mode = strrchr(colon + 1, ':');
	if (mode != NULL && strchr(mode, '/') == NULL) {
		if (strcmp(mode, ":ro") != 0 && strcmp(mode, ":rw") != 0)
			return err_set(e, ERR_INVALID,
				       "--mount: '%.80s': the mode is neither ro nor rw", text);
		n = (size_t)(mode - colon) - 1;
	}
	while (n > 1 && colon[n] == '/')
		n--; /* "/data/" is "/data" */
	if (n >= sizeof(o->mount[i].at) || (size_t)(colon - text) >= sizeof(o->mount[i].source))
		return err_set(e, ERR_INVALID, "--mount: a path in '%.80s' is too long", text);
	memcpy(o->mount[i].source, text, (size_t)(colon - text));
	memcpy(o->mount[i].at, colon + 1, n);
	o->mount[i].writable = mode != NULL && strcmp(mode, ":rw") == 0;
	if (n == 1)
		return err_set(e, ERR_INVALID, "--mount: '%.80s': cannot mount over /", text);
	if (is_below(o->mount[i].at, "/proc") || is_below(o->mount[i].at, "/dev"))
		return err_set(e, ERR_INVALID,
			       "--mount: '%.80s': /proc and /dev are the cell's own", text);
	if (!cell_is_place(o->mount[i].at, sizeof(o->mount[i].at)))
		return err_set(e, ERR_INVALID, "--mount: '%.80s': DST has empty, '.' or '..' parts",
			       text);
	return 0;
}

/* Checks of single options that the table cannot express. Each message names its option, so it
 * can be printed as it is. */
static int check_words(const struct run_options *o, struct err *e)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";

	if (cell_level_find(o->level) == NULL)
		return err_set(e, ERR_UNSUPPORTED, "--level: '%.40s' is none of " CELL_LEVEL_NAMES,
			       o->level);
	if (strlen(o->hostname) > 63 || o->hostname[0] == '-' ||
	    o->hostname[strspn(o->hostname, allowed)] != '\0')
		return err_set(
			e, ERR_INVALID,
			"--hostname: '%.70s' is not up to 63 letters, digits, dots and dashes",
			o->hostname);
	for (size_t i = 0; i < o->env.n; i++)
		if (o->env.items[i][0] == '=' || strchr(o->env.items[i], '=') == NULL)
			return err_set(e, ERR_INVALID, "--env: '%.60s' is not NAME=VALUE",
				       o->env.items[i]);
	if (o->mounts.n > CELL_MOUNTS_MAX)
		return err_set(e, ERR_LIMIT, "--mount: %zu given, at most %d", o->mounts.n,
			       CELL_MOUNTS_MAX);
	if (o->allow.n == 0 && o->deny.n == 0 && o->policy == NULL &&
	    (o->allow_private.n > 0 || o->net_log != NULL || o->egress_ca != NULL))
		return err_set(e, ERR_INVALID,
			       "--allow-private, --net-log, --egress-ca: nothing is allowed; add "
			       "--allow or --policy");
	if (strlen(o->user) > 63)
		return err_set(e, ERR_INVALID, "--user: '%.20s...' is too long", o->user);
	if (o->cwd[0] != '\0' && o->cwd[0] != '/')
		return err_set(e, ERR_INVALID, "--cwd: '%.60s' is not absolute", o->cwd);
	return 0;
}

/* Defaults that depend on other options or on the machine. `given` tells which limits the user
 * named: only these must be enforceable. */
static void fill_defaults(struct run_options *o, uint64_t given)
{
	struct rlimit files = { .rlim_max = 1024 };

	o->limits_asked = ((given & bit_of(FIELD(memory))) ? (unsigned)CELL_LIMIT_MEMORY : 0) |
			  ((given & bit_of(FIELD(cpus))) ? (unsigned)CELL_LIMIT_CPU : 0) |
			  ((given & bit_of(FIELD(pids))) ? (unsigned)CELL_LIMIT_PIDS : 0);
	/* A cell's files are kept in memory, so each of the two follows the other. */
	if (o->memory == 0)
		o->memory = o->disk > GIB / 4 * 3 ? o->disk / 3 * 4 : GIB;
	if (o->disk == 0)
		o->disk = o->memory / 4 * 3;
	(void)getrlimit(RLIMIT_NOFILE, &files);
	if (o->nofile == 0)
		o->nofile = files.rlim_max < 16384 ? files.rlim_max : 16384;
}

/* The last of a variable given twice counts, as with every other option. */
static void drop_overridden(struct option_list *env)
{
	size_t kept = 0;

	for (size_t i = 0; i < env->n; i++) {
		size_t name = strcspn(env->items[i], "=") + 1;
		bool again = false;

		for (size_t k = i + 1; k < env->n; k++)
			again |= strncmp(env->items[i], env->items[k], name) == 0;
		if (!again)
			env->items[kept++] = env->items[i];
	}
	env->n = kept;
}

/* The order matters: words first, then mounts, then defaults. A value that is wrong in itself is
 * an error even where its default would do. */
int run_options_parse(struct run_options *o, int argc, char **argv, struct err *e)
{
	uint64_t given = 0;
	int n;

	*o = (struct run_options){ .template = "host",
				   .profile_name = cell_profile_name(CELL_STANDARD),
				   .level = cell_level_find(NULL)->name,
				   .runsc = "",
				   .state_dir = GUEST_STATE_DIR,
				   .user = "",
				   .cwd = "",
				   .hostname = "cordon",
				   .boot_ms = 60000, /* without KVM it takes seconds */
				   .pids = 1024,
				   .inodes = 131072 };
	n = options_parse(&run_verb, argc, argv, o, &given, e);
	if (n < 0) {
		/* --result is used also if the command line is wrong elsewhere. */
		o->result = options_find(&run_verb, argc, argv, "result");
		return -1;
	}
	o->command = argv + n;
	if (o->help)
		return 0;
	if (n == argc)
		return err_set(e, ERR_INVALID, "no command given; try: cordon run -- echo hello");
	if (parse_profile(o, e) < 0 || check_words(o, e) < 0)
		return -1;
	for (size_t i = 0; i < o->mounts.n; i++)
		if (parse_mount(o, i, e) < 0)
			return -1;
	drop_overridden(&o->env);
	fill_defaults(o, given);
	return 0;
}

/* Names other than user and root are looked up inside the cell, which does not exist yet. They
 * get the usual id here. The profile locked has a single id, so a name cannot be looked up
 * later. */
int run_options_uid(const struct run_options *o, uint32_t *ret, struct err *e)
{
	char *end;
	unsigned long n;

	*ret = DEFAULT_UID;
	if (o->user[0] == '\0' || strcmp(o->user, "user") == 0)
		return 0;
	if (strcmp(o->user, "root") == 0) {
		*ret = 0;
		return 0;
	}
	errno = 0;
	n = strtoul(o->user, &end, 10);
	if (o->user[0] >= '0' && o->user[0] <= '9' && *end == '\0') {
		if (errno != 0 || n >= CELL_IDS)
			return err_set(e, ERR_INVALID, "--user: %.20s is not below %u", o->user,
				       CELL_IDS);
		*ret = (uint32_t)n;
		return 0;
	}
	if (o->profile == CELL_LOCKED)
		return err_set(e, ERR_INVALID,
			       "--user: must be root, user or a number with --profile locked");
	return 0;
}
