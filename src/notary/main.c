/* main.c - cordon-notary, the process that holds the keys of the audit log. It signs a checkpoint
 * only after it has verified that the log extends the last signed one (notary_judge.c), and has
 * written the new state down (notary_state.c).
 *
 * It is started by cordon serve with the channel to cordond and one folder, as a user of its own,
 * and ends when the channel closes. It has no network, links libcrypto for Ed25519 only, and reads
 * no bytes but those of the channel and of its two files. cordond may be taken over: then it can
 * append lies to a log, but neither rewrite nor drop records with a checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/confine.h"
#include "lib/base/fd_std.h"
#include "lib/base/kernel.h"
#include "lib/base/log.h"
#include "lib/channel/channel.h"
#include "lib/wire/supervisor_msg.h"
#include "notary/notary_judge.h"
#include "notary/notary_keys.h"
#include "notary/notary_state.h"
#include "notary_program.h"

#define ANSWERS_MAX (1U << 20) /* that cordond has not read */
#define LOGS_FILE "logs"
#define LOCK_TRIES 100
#define LOCK_MS 100

/* The whole process. Nothing of it is freed before the end. */
static struct {
	struct loop *loop;
	struct channel channel;
	struct notary_keys keys;
	struct notary_state state;
} notary;

/* ---- answers */

/* An answer that cannot be sent ends the process: cordond would wait for it. */
static void main_answer(const struct notary_msg *m)
{
	static uint8_t frame[4096];
	int n = notary_msg_write(m, frame, sizeof(frame));
	struct err e;

	if (n < 0 ||
	    channel_send(&notary.channel, &(struct channel_msg){ .bytes = frame, .len = (size_t)n },
			 &e) < 0) {
		log_error("answer to cordond lost", "type=%u", m->type);
		loop_stop(notary.loop);
	}
}

/* known: the remembered state, for cordond to see how far back it is. */
static void main_refuse(const struct notary_msg *asked, enum notary_reason why,
			const struct notary_log *known, const char *text)
{
	struct notary_msg m = {
		.type = NOTARY_REFUSED, .id = asked->id, .reason = why, .text = text
	};

	if (known != NULL) {
		m.size = known->size;
		memcpy(m.root, known->root.bytes, sizeof(m.root));
	}
	log_warn("request refused", "reason=%s origin=%s size=%llu known=%llu error=%s",
		 notary_reason_name(why), asked->origin == NULL ? "" : asked->origin,
		 (unsigned long long)asked->size, (unsigned long long)m.size, text);
	main_answer(&m);
}

/* ---- checkpoints
 *
 * on_sign() judges, keeps, and signs, in this order and in one turn. The signature is made from the
 * parsed values, never from text of cordond. */

/* One line for each key. Return the length so far, 0: libcrypto failed. */
static size_t add_line(const struct notary_key *k, const char *text, size_t len, char *lines,
		       size_t at)
{
	uint8_t sig[TLOG_SIG];
	struct err e;

	if (k->pkey == NULL)
		return at;
	if (notary_key_sign(k, text, len, sig, &e) < 0)
		return 0;
	return at + tlog_sig_line(&k->public, sig, sizeof(sig), lines + at);
}

/* Two lines while a former key is there, so that verifiers with either key accept. */
static void main_sign(const struct notary_msg *asked)
{
	char text[TLOG_CHECKPOINT_MAX], lines[2 * TLOG_SIG_LINE_MAX];
	struct tlog_checkpoint c = { .size = asked->size };
	size_t len, n;

	memcpy(c.origin, asked->origin, strnlen(asked->origin, sizeof(c.origin) - 1));
	memcpy(c.root.bytes, asked->root, TLOG_HASH);
	len = tlog_checkpoint_format(&c, text);
	n = len == 0 ? 0 : add_line(&notary.keys.present, text, len, lines, 0);
	if (n > 0)
		n = add_line(&notary.keys.former, text, len, lines, n);
	if (n == 0) {
		main_refuse(asked, NOTARY_DISK, NULL, "the checkpoint could not be signed");
		return;
	}
	main_answer(&(struct notary_msg){ .type = NOTARY_SIGNED, .id = asked->id, .lines = lines });
}

/* For reasons of notary_judge() only. */
static const char *why_not(enum notary_reason why)
{
	switch (why) {
	case NOTARY_STALE:
		return "the proof does not begin at the remembered size";
	case NOTARY_ROLLBACK:
		return "a larger log was signed before";
	case NOTARY_FORK:
		return "the log does not extend the one that was signed before";
	case NOTARY_ORIGIN:
	case NOTARY_FULL:
	case NOTARY_DISK:
	case NOTARY_DAMAGED:
	case NOTARY_REASONS:
		break;
	}
	return "";
}

/* Each path answers once. */
static void on_sign(const struct notary_msg *m)
{
	const struct notary_log *known;
	enum notary_reason why = NOTARY_FORK;
	struct tlog_hash root = { 0 };
	struct err e = { 0 };
	int failed = 0;

	if (!notary_origin_is_valid(notary.keys.name, m->origin)) {
		main_refuse(m, NOTARY_ORIGIN, NULL, "the origin is not of this node");
		return;
	}
	known = notary_state_find(&notary.state, m->origin);
	if (known == NULL && notary.state.damaged > 0) {
		main_refuse(m, NOTARY_DAMAGED, NULL, "a record of another log cannot be read");
		return;
	}
	if (known != NULL)
		root = known->root;
	switch (notary_judge(known == NULL ? 0 : known->size, &root, m, &why)) {
	case NOTARY_MUST_REFUSE:
		main_refuse(m, why, known, why_not(why));
		return;
	case NOTARY_MUST_KEEP:
		memcpy(root.bytes, m->root, TLOG_HASH);
		failed = notary_state_put(&notary.state, m->origin, m->size, &root, &e);
		break;
	case NOTARY_MAY_SIGN:
		break;
	}
	if (failed != 0)
		main_refuse(m, (enum notary_reason)failed, known, e.msg);
	else
		main_sign(m);
}

/* ---- keys
 *
 * Rotation: a new key is made, logs get a checkpoint with both, and cordond retires the former one.
 */

/* With a former key, its signature over the new key proves the change. */
static void answer_keys(const struct notary_msg *asked)
{
	char present[TLOG_VKEY_MAX], former[TLOG_VKEY_MAX] = "", documents[TLOG_VKEY_MAX];

	char text[TLOG_CHECKPOINT_MAX];
	struct notary_msg m = { .type = NOTARY_KEY_IS,
				.id = asked->id,
				.name = notary.keys.name,
				.vkey = present,
				.former_vkey = former,
				.attest_vkey = documents,
				.logs = notary.state.records };
	struct err e;

	tlog_vkey_format(&notary.keys.present.public, present);
	tlog_vkey_format(&notary.keys.documents.public, documents);
	if (notary.keys.former.pkey != NULL) {
		tlog_vkey_format(&notary.keys.former.public, former);
		if (notary_key_sign(&notary.keys.former, text, tlog_next_key_text(present, text),
				    m.sig, &e) < 0) {
			main_refuse(asked, NOTARY_DISK, NULL, e.msg);
			return;
		}
	}
	main_answer(&m);
}

/* Only one former key is kept, so the one before it must be retired. */
static void on_rotate(const struct notary_msg *m)
{
	char vkey[TLOG_VKEY_MAX];
	struct err e;

	if (notary.keys.former.pkey != NULL) {
		main_refuse(m, NOTARY_FULL, NULL, "the former key has not been retired");
	} else if (notary_keys_rotate(&notary.keys, &e) < 0) {
		main_refuse(m, NOTARY_DISK, NULL, e.msg);
	} else {
		tlog_vkey_format(&notary.keys.present.public, vkey);
		log_info("new key", "vkey=%s", vkey);
		answer_keys(m);
	}
}

static void on_retire(const struct notary_msg *m)
{
	struct err e;

	if (notary_keys_retire(&notary.keys, &e) < 0)
		main_refuse(m, NOTARY_DISK, NULL, e.msg);
	else
		answer_keys(m);
}

/* ---- documents: what DSSE signs, "DSSEv1 LEN TYPE LEN BODY" */

/* The body is not understood here. A prefix and a key of its own keep it from passing for a
 * checkpoint. */
static void on_attest(const struct notary_msg *asked)
{
	static uint8_t text[NOTARY_BODY_MAX + 256];
	const char *type = notary_payload_name(asked->payload);
	struct notary_msg m = { .type = NOTARY_ATTESTED, .id = asked->id };
	char vkey[TLOG_VKEY_MAX];
	struct err e;
	int n = snprintf((char *)text, 256, "DSSEv1 %zu %s %zu ", strlen(type), type,
			 asked->body_len);

	memcpy(text + n, asked->body, asked->body_len);
	if (notary_key_sign(&notary.keys.documents, text, (size_t)n + asked->body_len, m.sig, &e) <
	    0) {
		main_refuse(asked, NOTARY_DISK, NULL, e.msg);
		return;
	}
	/* The id is the key's name with the first digits: all of the text before the second "+". */
	tlog_vkey_format(&notary.keys.documents.public, vkey);
	*strchr(strchr(vkey, '+') + 1, '+') = '\0';
	m.keyid = vkey;
	main_answer(&m);
}

/* ---- the channel to cordond
 *
 * One message, one answer. The channel keeps the order. */

/* -1 ends the channel, and so the process. */
static int on_message(struct channel *c, const struct channel_got *got, struct err *e)
{
	struct notary_msg m;

	if (notary_msg_read(&got->frame, &m, e) < 0)
		return -1;
	if (m.type == NOTARY_SIGN)
		on_sign(&m);
	else if (m.type == NOTARY_KEY)
		answer_keys(&m);
	else if (m.type == NOTARY_ATTEST)
		on_attest(&m);
	else if (m.type == NOTARY_ROTATE)
		on_rotate(&m);
	else if (m.type == NOTARY_RETIRE)
		on_retire(&m);
	else
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	return 0;
}

/* The process ends with its channel. */
static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	if (how != CHANNEL_CLOSED)
		log_error("channel to cordond failed", "error=%s", why);
	loop_stop(notary.loop);
}

static int open_channel(struct err *e)
{
	static const struct channel_rules rules = { .peer = "cordond",
						    .framed = true,
						    .in_max = NOTARY_FRAME_MAX,
						    .out_max = ANSWERS_MAX,
						    .untrusted = true,
						    .answers_first = true };

	channel_init(&notary.channel, notary.loop, &rules);
	notary.channel.on_message = on_message;
	notary.channel.on_end = on_end;
	return channel_attach(&notary.channel, NOTARY_FD_CHANNEL, e);
}

/* ---- the start */

/* "--start=F:L": format and level of the log, as the numbers of log.h. */
static bool read_word(const char *word)
{
	static const char name[] = "--start=";
	unsigned long format, level;
	char *end;

	if (strncmp(word, name, sizeof(name) - 1) != 0)
		return false;
	format = strtoul(word + sizeof(name) - 1, &end, 10);
	if (*end != ':')
		return false;
	level = strtoul(end + 1, &end, 10);
	if (*end != '\0' || format >= LOG_FORMATS || level >= LOG_LEVELS)
		return false;
	log_setup((enum log_format)format, (enum log_level)level);
	return true;
}

/* The process before this one may still be ending. */
static int lock_folder(struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_MS * 1000000L };

	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (flock(NOTARY_FD_DIR, LOCK_EX | LOCK_NB) == 0)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return err_sys(e, "another cordon-notary has the folder");
}

/* No file outside of the folder. */
static int confine_folder(struct err *e)
{
	static const uint64_t never = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
				      LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
				      LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_DIR;
	static const int dir = NOTARY_FD_DIR;
	const struct confine_table table = {
		.abi = 1,
		.net = LANDLOCK_NET_BIND | LANDLOCK_NET_CONNECT,
		.places = { { .fds = &dir, .n = 1, .rights = CONFINE_CHANGE & ~never } },
	};

	return confine_files(&table, e);
}

/* The file of logs is made first. So a folder with logs but without keys, or with keys but without
 * the file of logs, has lost a file: then nothing is signed, since a new key or an empty memory
 * would hide the loss. */
static int open_folder(struct err *e)
{
	int has_keys = notary_keys_exist(NOTARY_FD_DIR, e);

	if (has_keys < 0 ||
	    notary_state_open(&notary.state, NOTARY_FD_DIR, LOGS_FILE, has_keys == 0, e) < 0)
		return -1;
	if (has_keys == 0 && notary.state.records > 0)
		return err_set(e, ERR_NOT_FOUND, "the file of keys is missing: restore it");
	return has_keys > 0 ? notary_keys_open(&notary.keys, NOTARY_FD_DIR, e)
			    : notary_keys_make(&notary.keys, NOTARY_FD_DIR, e);
}

/* System calls are closed last, since the steps before need more of them. */
static int main_start(struct err *e)
{
	uint8_t sig[TLOG_SIG];

	if (lock_folder(e) < 0 || confine_folder(e) < 0)
		return -1;
	/* libcrypto reads no configuration. It loads its algorithms at the first signature. */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		return err_set(e, ERR_SYSTEM, "libcrypto does not start");
	notary.loop = loop_new(e);
	if (notary.loop == NULL || open_folder(e) < 0 ||
	    notary_key_sign(&notary.keys.present, "", 0, sig, e) < 0 || open_channel(e) < 0)
		return -1;
	if (confine_calls(seccomp_notary, COUNT(seccomp_notary), e) < 0)
		return -1;
	log_info("cordon-notary is ready", "name=%s logs=%u", notary.keys.name,
		 notary.state.records);
	return 0;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };

	fd_std_fill();
	if (fcntl(NOTARY_FD_CHANNEL, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(NOTARY_FD_DIR, F_SETFD, FD_CLOEXEC) < 0 || argc != 2 || !read_word(argv[1])) {
		(void)fprintf(stderr, "cordon-notary: must be started by cordon serve\n");
		return 2;
	}
	(void)kernel_close_range(NOTARY_FDS_END, ~0U);
	(void)prctl(PR_SET_NAME, "cordon-notary", 0, 0, 0); /* executed by descriptor */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)umask(077);
	(void)signal(SIGPIPE, SIG_IGN);
	if (main_start(&e) < 0) {
		log_error("cordon-notary cannot start", "error=%s", e.msg);
		return 1; /* the server works without it, and tries again */
	}
	if (loop_run(notary.loop, &e) < 0) {
		log_error("cordon-notary failed", "error=%s", e.msg);
		return 1;
	}
	return 0;
}
