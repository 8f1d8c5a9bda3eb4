/* tool.c - what the tests of layers do that Python cannot: speaks to a keeper and to cordon-storage
 * by their structures. Stands in the build directory, beside the programs that it starts.
 *
 *   storage_tool cell LAYERS ID,ID,... SCRIPT [CAPTURE]   makes a cell from the host template and
 *       these layers of the folder LAYERS, runs the script in it as root, prints its output; then
 *       freezes it and writes its capture to the file CAPTURE
 *   storage_tool serve PROGRAM FOLDER   starts cordon-storage; reads requests from standard input,
 *       one line each, and prints a line for each answer:
 *         unpack ID FILE FORMAT FLAGS BYTES ENTRIES DEADLINE [SHA256]
 *         remove ID | list FILE | fold ID FLAGS ID...
 */
#include <sys/wait.h>

#include "../keeper/server.h"
#include "hex.h"
#include "kernel.h"
#include "storage_msg.h"

/* ---- cells */

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
	text = run_shell(&c, argv[2], "root");
	(void)fputs(text, stdout);
	free(text);
	if (argv[3] != NULL)
		capture(&r, argv[3]);
	destroy(&s, &c, c.pid);
	stop_server(&s);
	return 0;
}

/* ---- cordon-storage */

static pid_t spawn(const char *program, const char *folder, int *ret_sock)
{
	int ends[2], dir = open(folder, O_PATH | O_DIRECTORY);
	pid_t pid;

	CHECK(dir >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	pid = fork();
	if (pid == 0) {
		int a = fcntl(ends[1], F_DUPFD, 20), b = fcntl(dir, F_DUPFD, 20);

		(void)dup2(a, STORAGE_FD_CHANNEL);
		(void)dup2(b, STORAGE_FD_DIR);
		(void)kernel_close_range(STORAGE_FD_DIR + 1, ~0U);
		(void)execl(program, "cordon-storage", (char *)NULL);
		_exit(127);
	}
	(void)close(ends[1]);
	(void)close(dir);
	*ret_sock = ends[0];
	return pid;
}

static bool answer(int sock)
{
	struct storage_reply r;
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err bad = { 0 };
	char hash[2 * STORAGE_SHA256 + 1];
	ssize_t n = io_recv(sock, &r, sizeof(r), fds, IO_FDS_MAX, &nfds, &bad);

	if (n <= 0)
		return false;
	MUST(storage_msg_check_reply(&r, (size_t)n, &e));
	hex_encode(r.sha256, sizeof(r.sha256), hash);
	printf("%llu %d %s %llu %llu %s %llu %s\n", (unsigned long long)r.job, (int)r.err.code,
	       err_reason_name(r.err.reason)[0] == '\0' ? "-" : err_reason_name(r.err.reason),
	       (unsigned long long)r.bytes, (unsigned long long)r.entries, hash,
	       (unsigned long long)r.disk_free, r.err.msg);
	(void)fflush(stdout);
	return true;
}

static uint64_t number(char **at)
{
	char *word = strtok_r(NULL, " \n", at);

	return word == NULL ? 0 : strtoull(word, NULL, 10);
}

static void text(char **at, char *ret, size_t cap)
{
	char *word = strtok_r(NULL, " \n", at);

	(void)snprintf(ret, cap, "%s", word == NULL ? "" : word);
}

static size_t fill_unpack(union storage_request *r, char **at, int *ret_fd)
{
	char file[512], hash[80];

	text(at, r->unpack.layer, sizeof(r->unpack.layer));
	text(at, file, sizeof(file));
	*ret_fd = open(file, O_RDONLY | O_CLOEXEC);
	CHECK(*ret_fd >= 0);
	r->unpack.format = (uint32_t)number(at);
	r->unpack.flags = (uint32_t)number(at);
	r->unpack.bytes_max = number(at);
	r->unpack.entries_max = number(at);
	r->head.deadline_ms = (uint32_t)number(at);
	text(at, hash, sizeof(hash));
	for (unsigned i = 0; i < STORAGE_SHA256 && hash[0] != '\0'; i++) {
		char digits[3] = { hash[2 * i], hash[2 * i + 1], 0 };

		r->unpack.sha256[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return sizeof(r->unpack);
}

static size_t fill_fold(union storage_request *r, char **at)
{
	text(at, r->fold.layer, sizeof(r->fold.layer));
	r->fold.flags = (uint32_t)number(at);
	for (;;) {
		text(at, r->fold.from[r->fold.nfrom], STORAGE_ID_MAX);
		if (r->fold.from[r->fold.nfrom][0] == '\0')
			return sizeof(r->fold);
		r->fold.nfrom++;
	}
}

static void request(int sock, char *line, uint64_t job)
{
	static union storage_request r;
	char *at, *verb = strtok_r(line, " \n", &at), file[512];
	size_t n = 0;
	int fd = -1;

	memset(&r, 0, sizeof(r));
	r.head.deadline_ms = 60000;
	if (strcmp(verb, "unpack") == 0) {
		r.head.op = STORAGE_UNPACK;
		n = fill_unpack(&r, &at, &fd);
	} else if (strcmp(verb, "remove") == 0) {
		r.head.op = STORAGE_REMOVE;
		text(&at, r.remove.layer, sizeof(r.remove.layer));
		n = sizeof(r.remove);
	} else if (strcmp(verb, "list") == 0) {
		r.head.op = STORAGE_LIST;
		text(&at, file, sizeof(file));
		fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		n = sizeof(r.list);
	} else if (strcmp(verb, "fold") == 0) {
		r.head.op = STORAGE_FOLD;
		n = fill_fold(&r, &at);
	}
	r.head.job = job;
	MUST(io_send(sock, &r, n, &fd, fd >= 0, &e));
	if (fd >= 0)
		(void)close(fd);
}

static int serve(char **argv)
{
	struct pollfd fds[2];
	char line[16384];
	uint64_t job = 0;
	int sock;
	pid_t pid = spawn(argv[0], argv[1], &sock);

	printf("%d\n", (int)pid);
	(void)fflush(stdout);
	(void)setvbuf(stdin, NULL, _IONBF, 0);
	fds[0] = (struct pollfd){ .fd = 0, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = sock, .events = POLLIN };
	for (;;) {
		CHECK(poll(fds, 2, -1) > 0);
		if (fds[1].revents != 0 && !answer(sock))
			return 1;
		if (fds[0].revents != 0) {
			if (fgets(line, sizeof(line), stdin) == NULL)
				break;
			request(sock, line, ++job);
		}
	}
	(void)close(sock);
	(void)waitpid(pid, NULL, 0);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 5 && strcmp(argv[1], "cell") == 0)
		return run_cell(argv + 2);
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv + 2);
	return 2;
}
