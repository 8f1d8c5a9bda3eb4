/* response.c - turns results of system calls into the words of the tables, and small helpers. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct name {
	int number;
	const char *text;
};

#define NAME(x)       \
	{             \
		x, #x \
	}

static const struct name errno_names[] = {
	NAME(EPERM),	    NAME(ENOENT),	   NAME(ESRCH),		  NAME(EINTR),
	NAME(EIO),	    NAME(ENXIO),	   NAME(E2BIG),		  NAME(ENOEXEC),
	NAME(EBADF),	    NAME(ECHILD),	   NAME(EAGAIN),	  NAME(ENOMEM),
	NAME(EACCES),	    NAME(EFAULT),	   NAME(ENOTBLK),	  NAME(EBUSY),
	NAME(EEXIST),	    NAME(EXDEV),	   NAME(ENODEV),	  NAME(ENOTDIR),
	NAME(EISDIR),	    NAME(EINVAL),	   NAME(ENFILE),	  NAME(EMFILE),
	NAME(ENOTTY),	    NAME(ETXTBSY),	   NAME(EFBIG),		  NAME(ENOSPC),
	NAME(ESPIPE),	    NAME(EROFS),	   NAME(EMLINK),	  NAME(EPIPE),
	NAME(EDOM),	    NAME(ERANGE),	   NAME(EDEADLK),	  NAME(ENAMETOOLONG),
	NAME(ENOLCK),	    NAME(ENOSYS),	   NAME(ENOTEMPTY),	  NAME(ELOOP),
	NAME(ENODATA),	    NAME(ETIME),	   NAME(EOVERFLOW),	  NAME(EUSERS),
	NAME(ENOTSOCK),	    NAME(EDESTADDRREQ),	   NAME(EMSGSIZE),	  NAME(EPROTOTYPE),
	NAME(ENOPROTOOPT),  NAME(EPROTONOSUPPORT), NAME(ESOCKTNOSUPPORT), NAME(EOPNOTSUPP),
	NAME(EPFNOSUPPORT), NAME(EAFNOSUPPORT),	   NAME(EADDRINUSE),	  NAME(EADDRNOTAVAIL),
	NAME(ENETDOWN),	    NAME(ENETUNREACH),	   NAME(ECONNABORTED),	  NAME(ECONNRESET),
	NAME(ENOBUFS),	    NAME(EISCONN),	   NAME(ENOTCONN),	  NAME(ETIMEDOUT),
	NAME(ECONNREFUSED), NAME(EHOSTUNREACH),	   NAME(EALREADY),	  NAME(EINPROGRESS),
	NAME(ESTALE),	    NAME(EDQUOT),	   NAME(ENOKEY),	  NAME(EKEYEXPIRED),
	NAME(EKEYREVOKED),  NAME(ENOPKG),	   NAME(EOWNERDEAD),	  NAME(EBADFD),
};

static const struct name signal_names[] = {
	NAME(SIGSYS),  NAME(SIGSEGV), NAME(SIGKILL), NAME(SIGBUS),  NAME(SIGILL),
	NAME(SIGFPE),  NAME(SIGABRT), NAME(SIGTRAP), NAME(SIGTERM), NAME(SIGPIPE),
	NAME(SIGXFSZ), NAME(SIGXCPU), NAME(SIGHUP),  NAME(SIGSTOP),
};

const char *answer_text(const char *fmt, ...)
{
	static char text[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return text;
}

const char *answer_errno(int err)
{
	for (size_t i = 0; i < sizeof(errno_names) / sizeof(errno_names[0]); i++)
		if (errno_names[i].number == err)
			return errno_names[i].text;
	return answer_text("errno-%d", err);
}

const char *answer_signal(int sig)
{
	for (size_t i = 0; i < sizeof(signal_names) / sizeof(signal_names[0]); i++)
		if (signal_names[i].number == sig)
			return signal_names[i].text;
	return answer_text("signal-%d", sig);
}

const char *answer(long rc)
{
	return rc < 0 ? answer_errno(errno) : "done";
}

const char *answer_path(int fd)
{
	if (fd >= 0) {
		(void)close(fd);
		return "done";
	}
	return errno == ENOENT ? "hidden" : answer_errno(errno);
}

static const char *list_folder(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	int n = 0;

	if (!dir)
		return answer_path(-1);
	errno = 0;
	while ((e = readdir(dir)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			n++;
	(void)closedir(dir);
	if (errno != 0)
		return answer_errno(errno);
	return n == 0 ? "empty" : "done";
}

const char *answer_read(const char *path)
{
	struct stat st;
	char entry[8]; /* some files of /proc come in units of eight bytes */
	long n;
	/* O_NONBLOCK: /proc/kmsg would wait for the next message. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return answer_path(-1);
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		(void)close(fd);
		return list_folder(path);
	}
	n = read(fd, entry, sizeof(entry));
	if (n < 0 && errno == EAGAIN)
		n = 1; /* nothing to say at the moment, but it would have said it */
	if (n < 0)
		return answer_errno(errno);
	(void)close(fd);
	return n == 0 ? "empty" : "done";
}

const char *answer_child(long pid)
{
	int status;

	if (pid < 0)
		return answer_errno(errno);
	if (waitpid((pid_t)pid, &status, 0) < 0)
		return answer_errno(errno);
	if (WIFSIGNALED(status))
		return answer_signal(WTERMSIG(status));
	return WEXITSTATUS(status) == 0 ? "done" : answer_errno(WEXITSTATUS(status));
}

long slurp(const char *path, char *buf, size_t size)
{
	size_t have = 0;
	long n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while (have + 1 < size && (n = read(fd, buf + have, size - 1 - have)) > 0)
		have += (size_t)n;
	(void)close(fd);
	buf[have] = '\0';
	return n < 0 ? -1 : (long)have;
}

uint64_t hash_file(const char *path)
{
	unsigned char buf[4096];
	uint64_t h = 0xcbf29ce484222325u;
	long n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (long i = 0; i < n; i++)
			h = (h ^ buf[i]) * 0x100000001b3u;
	(void)close(fd);
	return n < 0 ? 0 : h;
}

static const char *find_status(const char *name, char *buf, size_t size)
{
	size_t len = strlen(name);

	if (slurp("/proc/self/status", buf, size) < 0)
		return NULL;
	for (const char *p = buf; p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		if (strncmp(p, name, len) == 0 && p[len] == ':')
			return p + len + 1;
	}
	return NULL;
}

long status_field(const char *name, int base)
{
	char buf[8192];
	const char *p = find_status(name, buf, sizeof(buf));

	return p ? strtol(p, NULL, base) : -1;
}

unsigned long long status_mask(const char *name)
{
	char buf[8192];
	const char *p = find_status(name, buf, sizeof(buf));

	return p ? strtoull(p, NULL, 16) : ~0ULL;
}

int namespace_inode(const char *name, unsigned long long *ret)
{
	char path[64], text[64];
	const char *p;
	long n;

	(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0)
		return -1;
	text[n] = '\0';
	p = strchr(text, '[');
	if (!p) {
		errno = EINVAL;
		return -1;
	}
	*ret = strtoull(p + 1, NULL, 10);
	return 0;
}

const char *foreign_pid1(void)
{
	char text[64];
	long n = readlink("/proc/self", text, sizeof(text) - 1);

	if (n < 0)
		return "no-proc";
	text[n] = '\0';
	if (strtol(text, NULL, 10) != getpid())
		return "foreign-proc";
	if (slurp("/proc/1/comm", text, sizeof(text)) < 0)
		return "no-pid1";
	return strcmp(text, "cordon-init\n") == 0 ? NULL : "foreign-pid1";
}
