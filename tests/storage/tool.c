/* tool.c - makes a cell from layers, for tests of layers: speaks to a keeper by its structures.
 * Stands in the build directory, beside the keeper that it starts.
 *
 *   storage_tool LAYERS ID,ID,... SCRIPT [CAPTURE]
 *   storage_tool host
 *
 * Makes a cell from the host template and these layers of the folder LAYERS, runs the script in it
 * as root (of an ordinary user: as its user), prints its output; then freezes it and writes its
 * capture to the file CAPTURE. The second prints the directories of the host template. */
#include "../keeper/server.h"

static struct server s;
static struct cell c;

static void start(const char *layers)
{
	start_server(&s, true);
	keeper_client_stop(&s.k, NULL);
	s.k = (struct keeper_client){ .pid = -1, .sock = -1 };
	cgroups_find(&s.k.cgroups);
	cgroups_find_unified(&s.k.cgroups);
	s.roots[ROOT_LAYERS].fd = open(layers, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(s.roots[ROOT_LAYERS].fd >= 0);
	spawn_keeper(&s);
}

/* Each place of the template with its layers on top of it. */
static struct keeper_create stacked(char *ids)
{
	struct keeper_create r = plan(&s, "l"), whole = r;
	char *names[CELL_LAYERS_MAX], *at;
	unsigned n = 0;

	for (char *id = strtok_r(ids, ",", &at); id != NULL; id = strtok_r(NULL, ",", &at))
		names[n++] = id;
	whole.nlayers = 0;
	for (uint32_t place = 0; place < r.nlayers; place++)
		for (unsigned i = 0; i <= n; i++) {
			uint32_t to = whole.nlayers++;

			CHECK(to < CELL_LAYERS_MAX);
			memcpy(whole.layer_at[to], r.layer_at[place], CELL_PLACE_MAX);
			whole.layer_from[to] = r.layer_from[place];
			if (i == 0)
				continue;
			whole.layer_from[to].root = ROOT_LAYERS;
			(void)snprintf(whole.layer_from[to].path, CELL_PATH_MAX, "%s/%u",
				       names[i - 1], place);
		}
	whole.limits.memory_bytes = whole.limits.memory_bytes == 0 ? 0 : 3ULL << 30;
	whole.limits.disk_bytes = 3ULL << 30;
	whole.limits.inodes = 200000;
	return whole;
}

static void capture(const struct keeper_create *r, const char *file)
{
	struct keeper_diff d = { .named = { .op = KEEPER_CAPTURE, .pid = c.pid } };
	char buffer[65536];
	struct keeper_reply reply;
	int ends[2], to = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;

	CHECK(to >= 0 && pipe2(ends, O_CLOEXEC) == 0);
	memcpy(d.named.id, c.id, sizeof(d.named.id));
	d.nlayers = r->nlayers;
	memcpy(d.layer_at, r->layer_at, sizeof(d.layer_at));
	memcpy(d.layer_from, r->layer_from, sizeof(d.layer_from));
	if (s.k.restrictions.freezer)
		MUST(ask_named(&s, KEEPER_FREEZE, c.id, c.pid, 1, &e));
	MUST(keeper_client_call(&s.k, &d, sizeof(d), &ends[1], 1, &reply, NULL, &e));
	(void)close(ends[1]);
	(void)fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
	while ((n = splice(ends[0], NULL, to, NULL, 1 << 20, 0)) > 0 ||
	       (n < 0 && (n = read(ends[0], buffer, sizeof(buffer))) > 0 &&
		write(to, buffer, (size_t)n) == n))
		;
	CHECK(n == 0);
	(void)close(to);
}

static int run_cell(char **argv)
{
	struct keeper_create r;
	struct err e = { 0 };
	char *text;

	start(argv[0]);
	r = stacked(argv[1]);
	if (try_create(&s, &r, &c, &e) < 0) {
		printf("refused: %s\n", e.msg);
		stop_server(&s);
		return 0;
	}
	struct agent_event v;

	hear(&c, AGENT_READY, &v);
	text = run_shell(&c, argv[2], getuid() == 0 ? "root" : "user");
	(void)fputs(text, stdout);
	free(text);
	if (argv[3] != NULL)
		capture(&r, argv[3]);
	destroy(&s, &c, c.pid);
	stop_server(&s);
	return 0;
}

/* The directories of the host template, a line each. */
static int print_host(void)
{
	struct template t;
	char link[64], path[512];

	MUST(template_open("host", NULL, &t, &e));
	for (unsigned i = 0; i < t.nlayers; i++) {
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", t.fds[i]);
		ssize_t n = readlink(link, path, sizeof(path) - 1);

		CHECK(n > 0);
		printf("%.*s\n", (int)n, path);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "host") == 0)
		return print_host();
	if (argc == 4 || argc == 5)
		return run_cell(argv + 1);
	return 2;
}
