#include "front/e2b/envd/process_event.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/base64.h"

/* The first message of a stream. */
void process_event_start(struct json *j, uint32_t pid)
{
	json_open(j, NULL, '{');
	json_open(j, "event", '{');
	json_open(j, "start", '{');
	json_uint(j, "pid", pid);
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}

/* Written by hand and not by the JSON writer: output is most of a stream, and base64 needs no
 * escapes. */
size_t process_event_data(char ret[PROCESS_EVENT_DATA_MAX], enum output_stream stream, bool pty,
			  const uint8_t *bytes, size_t n)
{
	static const char tail[] = "\"}}}";
	const char *name = pty ? "pty" : stream == OUTPUT_STDERR ? "stderr" : "stdout";
	size_t len = (size_t)snprintf(ret, PROCESS_EVENT_DATA_MAX,
				      "{\"event\":{\"data\":{\"%s\":\"", name);

	assert(n <= PROCESS_EVENT_PIECE);
	base64_encode(bytes, n, ret + len);
	len += BASE64_LENGTH(n);
	memcpy(ret + len, tail, sizeof(tail));
	return len + sizeof(tail) - 1;
}

/* As Go's syscall.Signal writes them on Linux, since clients may compare the text. */
static const char *signal_words(int32_t sig)
{
	static const char *const words[] = {
		[1] = "hangup",
		[2] = "interrupt",
		[3] = "quit",
		[4] = "illegal instruction",
		[5] = "trace/breakpoint trap",
		[6] = "aborted",
		[7] = "bus error",
		[8] = "floating point exception",
		[9] = "killed",
		[10] = "user defined signal 1",
		[11] = "segmentation fault",
		[12] = "user defined signal 2",
		[13] = "broken pipe",
		[14] = "alarm clock",
		[15] = "terminated",
		[16] = "stack fault",
		[17] = "child exited",
		[18] = "continued",
		[19] = "stopped (signal)",
		[20] = "stopped",
		[21] = "stopped (tty input)",
		[22] = "stopped (tty output)",
		[23] = "urgent I/O condition",
		[24] = "CPU time limit exceeded",
		[25] = "file size limit exceeded",
		[26] = "virtual timer expired",
		[27] = "profiling timer expired",
		[28] = "window changed",
		[29] = "I/O possible",
		[30] = "power failure",
		[31] = "bad system call",
	};

	size_t i = sig > 0 ? (size_t)sig : 0;

	return i < COUNT(words) ? words[i] : NULL;
}

/* exitCode is -1 after a signal. */
void process_event_end(struct json *j, const struct store_execution *row)
{
	const char *words = signal_words(row->signal);
	bool exited = row->signal == 0;
	int32_t code = exited ? row->exit_code : -1;
	char status[64];

	if (exited)
		(void)snprintf(status, sizeof(status), "exit status %d", code);
	else if (words != NULL)
		(void)snprintf(status, sizeof(status), "signal: %s", words);
	else
		(void)snprintf(status, sizeof(status), "signal: signal %d", row->signal);
	json_open(j, NULL, '{');
	json_open(j, "event", '{');
	json_open(j, "end", '{');
	json_int(j, "exitCode", code);
	json_bool(j, "exited", exited);
	json_text(j, "status", status);
	if (code != 0)
		json_text(j, "error", status);
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}
