/* level.c - `cordon level`: see level.h. Packages are installed by apt-get; the kernel of guests is
 * got as `cordon guest install` does it. What is there already is left alone. */
#include "level.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "exit_codes.h"
#include "guest_files.h"
#include "guest_install.h"
#include "guest_tool.h"
#include "host_size.h"
#include "io.h"
#include "level_machine.h"
#include "runsc.h"

#define WORDS_MAX 24

struct level_options {
	const char *state_dir, *deb;
};

#define FIELD(name) offsetof(struct level_options, name)

static const struct option options[] = {
	{ "state-dir", "DIR", OPTION_TEXT, FIELD(state_dir), 0, 0,
	  "state directory of the server (default: as for cordon serve)" },
	{ "deb", "FILE", OPTION_TEXT, FIELD(deb), 0, 0,
	  "install microvm: this kernel package of Debian; it is not downloaded" },
};

/* ---- packages */

/* release: "": the usual one. packages end with NULL. */
static int apt_install(const char *release, const char *const *packages, struct err *e)
{
	const char *argv[WORDS_MAX] = { "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y",
					"-qq", "--no-install-recommends" };
	const struct guest_tool t = { .argv = argv, .dir = -1, .in = -1, .out = -1 };
	size_t n = 6;

	if (*release != '\0') {
		argv[n++] = "-t";
		argv[n++] = release;
	}
	argv[n++] = "install";
	for (; *packages != NULL && n < WORDS_MAX - 1; packages++)
		argv[n++] = *packages;
	return guest_tool_run(&t, e);
}

static int apt_update(struct err *e)
{
	static const char *const argv[] = { "apt-get", "-qq", "update", NULL };

	return guest_tool_run(&(struct guest_tool){ .argv = argv, .dir = -1, .in = -1, .out = -1 },
			      e);
}

/* "bookworm-backports", by the name of the machine's release; "": it has none. */
static void backports(char *ret, size_t cap)
{
	static const char key[] = "\nVERSION_CODENAME=";
	char text[4096];
	struct err e;
	const char *at = NULL;

	ret[0] = '\0';
	if (io_read_file(AT_FDCWD, "/etc/os-release", text, sizeof(text), &e) >= 0)
		at = strstr(text, key);
	if (at == NULL)
		return;
	at += strlen(key);
	(void)snprintf(ret, cap, "%.*s-backports", (int)strcspn(at, "\n\""), at);
}

/* By the lists that apt has; then by new ones; then of the backports. */
static int get_packages(const char *const *packages, struct err *e)
{
	char release[64];
	struct err why;

	if (geteuid() != 0)
		return err_set(e, ERR_DENIED,
			       "packages are installed by root only: run it as root");
	(void)printf("installing");
	for (const char *const *p = packages; *p != NULL; p++)
		(void)printf(" %s", *p);
	(void)printf("\n");
	(void)fflush(stdout);
	if (apt_install("", packages, e) == 0)
		return 0;
	if (apt_update(&why) == 0 && apt_install("", packages, e) == 0)
		return 0;
	backports(release, sizeof(release));
	if (*release != '\0' && apt_install(release, packages, &why) == 0)
		return 0;
	return err_wrap(e, "apt-get install");
}

/* ---- gvisor */

static bool has_runsc(void)
{
	uint32_t release;
	int opened = -1;
	struct err e;

	if (runsc_open("", &opened, &e) < 0)
		return false;
	OWN_FD fd = opened;
	return runsc_check(fd, &release, &e) == 0;
}

static int install_gvisor(const struct level_options *o, struct err *e)
{
	static const char *const packages[] = { "runsc", NULL };

	(void)o;
	return has_runsc() ? 0 : get_packages(packages, e);
}

/* ---- microvm */

static bool has_kernel(const char *state_dir)
{
	struct guest_manifest m;
	struct err e;
	int dir = -1;

	if (guest_files_open_dir(state_dir, &dir, &e) < 0)
		return false;
	OWN_FD held = dir;
	return guest_manifest_read(held, &m, &e) == 0;
}

static int install_microvm(const struct level_options *o, struct err *e)
{
	static const struct {
		const char *program, *package;
	} needed[] = { { "/usr/bin/qemu-system-x86_64", "qemu-system-x86" },
		       { "/usr/bin/lz4", "lz4" },
		       { "/usr/bin/zstd", "zstd" },
		       { "/usr/bin/xz", "xz-utils" } };
	const char *packages[COUNT(needed) + 1] = { NULL };
	struct guest_manifest m;
	size_t n = 0;

	for (size_t i = 0; i < COUNT(needed); i++)
		if (access(needed[i].program, X_OK) < 0)
			packages[n++] = needed[i].package;
	if (n > 0 && get_packages(packages, e) < 0)
		return -1;
	if (o->deb == NULL && has_kernel(o->state_dir))
		return 0;
	if (guest_install(o->state_dir, o->deb, &m, e) < 0)
		return err_wrap(e, "the kernel of guests");
	(void)printf("installed the guest kernel %s in %s/" GUEST_FOLDER "\n", m.release,
		     o->state_dir);
	return 0;
}

/* ---- what there is */

/* What the template host takes at level microvm, before a session needs it. */
static int show_host(const char *state_dir, struct err *e)
{
	uint64_t bytes, room = host_size_room(state_dir);

	if (host_size(0, &bytes, e) < 0)
		return -1;
	(void)printf("template  host has %llu MiB at this level, once and after each change of the "
		     "machine's packages;\n          %llu MiB are free for %s\n",
		     (unsigned long long)(bytes >> 20), (unsigned long long)(room >> 20),
		     state_dir);
	if (bytes <= room)
		return 0;
	return err_set(e, ERR_LIMIT,
		       "there is no room for the template host at level microvm: make room, set "
		       "storage_dir to a larger disk, or use a smaller template");
}

static int show(enum cell_level_id level, const char *state_dir, struct err *e)
{
	struct level_machine m;
	const struct cell_level_state *s = &m.states[level];

	level_machine_init(&m);
	level_machine_find_one(level, NULL, state_dir, &m);
	level_machine_release(&m);
	(void)printf("%-9s %s\n", cell_level_of(level)->name,
		     s->is_possible ? s->note[0] == '\0' ? "possible" : s->note : s->why);
	if (s->is_possible)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "level %s is not possible here: %.200s",
		       cell_level_of(level)->name, s->why);
}

static int show_all(const struct level_options *o, struct err *e)
{
	const struct cell_level *l;

	for (size_t i = 0; (l = cell_level_at(i)) != NULL; i++)
		IGNORED(show(l->id, o->state_dir, e), "the line says it");
	return 0;
}

static int install(const char *name, const struct level_options *o, struct err *e)
{
	const struct cell_level *l = cell_level_find(name);

	if (l == NULL || l->id == CELL_CONTAINER)
		return err_set(e, ERR_INVALID, "install: '%.40s' is none of gvisor, microvm", name);
	if ((l->id == CELL_GVISOR ? install_gvisor : install_microvm)(o, e) < 0 ||
	    show(l->id, o->state_dir, e) < 0)
		return -1;
	if (l->id == CELL_MICROVM && show_host(o->state_dir, e) < 0)
		return -1;
	(void)printf(
		"A running server offers it after its next start; `cordon doctor` tries it.\n");
	return 0;
}

static int fail(const struct err *e)
{
	(void)fprintf(stderr, "cordon level: %s\n", e->msg);
	return EXIT_CORDON;
}

static int level_main(int argc, char **argv)
{
	static struct config config;
	struct config_starter starter;
	struct level_options o = { .deb = NULL };
	bool wants = argc > 0 && strcmp(argv[0], "install") == 0;
	const char *name = wants && argc > 1 ? argv[1] : "";
	int words = wants ? argc > 1 ? 2 : 1 : 0, n;
	struct err e;

	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0) {
			options_help(&level_verb, stdout);
			return 0;
		}
	config_starter_find(&starter, environ);
	config_defaults(&config, &starter);
	o.state_dir = config.state_dir;
	n = options_parse(&level_verb, argc - words, argv + words, &o, NULL, &e);
	if (n < 0)
		return fail(&e);
	if (argc > words + n) {
		(void)err_set(&e, ERR_INVALID, "'%.40s' is not understood", argv[words + n]);
		return fail(&e);
	}
	return (wants ? install(name, &o, &e) : show_all(&o, &e)) < 0 ? fail(&e) : 0;
}

const struct verb level_verb = {
	.name = "level",
	.usage = "[install gvisor|microvm] [OPTION ...]",
	.summary = "Shows the levels this machine can do; install gets what one needs.",
	.text = "install gvisor gets runsc, of Debian or of its backports. install microvm gets "
		"QEMU "
		"and the kernel\n"
		"of guests (cordon guest), and says what the machine's files, which are the "
		"template host, take at\n"
		"that level. Packages are installed with apt-get, by root. What is there already "
		"is "
		"left alone.\n"
		"\n"
		"Without install it shows each level, and why it is not possible.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = level_main,
};
