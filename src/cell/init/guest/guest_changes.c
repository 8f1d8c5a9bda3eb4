#include "cell/init/guest/guest_changes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "cell/init/changes/capture.h"
#include "cell/init/changes/capture_out.h"
#include "cell/init/changes/diff.h"
#include "cell/init/guest/guest_limits.h"
#include "cell/init/guest/guest_root.h"
#include "lib/base/kernel.h"
#include "lib/wire/keeper_msg.h"

#define READERS_MAX 16 /* at a time, cordond asks for one capture of a session, and few diffs */

enum { ROOT_FD = 3, IMAGE_FD };

static pid_t readers[READERS_MAX]; /* PID 1's: those that stop the programs. 0: free */

static bool guest_changes_stops_programs(const char *name)
{
	return strcmp(name, "frozen-diff") == 0 || strcmp(name, "capture") == 0;
}

static bool guest_changes_is_one(const char *name)
{
	return strcmp(name, "diff") == 0 || guest_changes_stops_programs(name);
}

/* ---- in the child */

/* As cell/keeper/diff_reader.c leaves them: the disk is the root directory, 3 the root that
 * programs see, 4 the only layer. */
static bool guest_changes_arrange(void)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int image = fcntl(guest_root_image(), F_DUPFD_CLOEXEC, INIT_FD_DIAG + 1);

	if (root < 0 || image < 0 || fchdir(INIT_FD_DISK) < 0 || chroot(".") < 0)
		return false;
	return dup2(root, ROOT_FD) >= 0 && dup2(image, IMAGE_FD) >= 0 &&
	       kernel_close_range(IMAGE_FD + 1, ~0U) == 0;
}

/* Until the server does not need it any more that nothing changes. */
static void guest_changes_wait_for_end_of_input(void)
{
	char ignored[256];
	ssize_t n;

	(void)kernel_close_range(STDOUT_FILENO, STDOUT_FILENO);
	do
		n = read(STDIN_FILENO, ignored, sizeof(ignored));
	while (n > 0 || (n < 0 && errno == EINTR));
}

static void NORETURN guest_changes_run(const char *name)
{
	char top[] = "/", *places[] = { top };
	bool capture = strcmp(name, "capture") == 0, frozen = guest_changes_stops_programs(name);
	struct err e, ignored;
	int code;

	if (frozen && guest_limits_freeze(true, &e) < 0)
		_exit(capture && capture_out_end(&e, &ignored) < 0 ? 2 : 1);
	if (!guest_changes_arrange())
		_exit(1);
	code = capture ? capture_main(1, places) : diff_main(1, places);
	if (frozen)
		guest_changes_wait_for_end_of_input();
	_exit(code);
}

/* ---- in PID 1 */

static void on_start(const char *name, pid_t pid)
{
	unsigned i = 0;

	if (!guest_changes_stops_programs(name))
		return;
	while (i < READERS_MAX && readers[i] != 0)
		i++;
	if (i < READERS_MAX)
		readers[i] = pid;
	else
		(void)kill(pid, SIGKILL);
}

bool guest_changes_stop_programs(void)
{
	bool some = false;

	for (unsigned i = 0; i < READERS_MAX; i++)
		some = some || readers[i] != 0;
	return some;
}

static void on_exit_of(pid_t pid)
{
	bool found = false;
	struct err e;

	for (unsigned i = 0; i < READERS_MAX; i++) {
		found = found || readers[i] == pid;
		readers[i] = readers[i] == pid ? 0 : readers[i];
	}
	if (found && !guest_changes_stop_programs())
		IGNORED(guest_limits_freeze(false, &e), "the file is there, and takes a number");
}

const struct spawn_guest guest_changes = { .is_one = guest_changes_is_one,
					   .run = guest_changes_run,
					   .on_start = on_start,
					   .on_exit = on_exit_of };
