/* audit_types.c - see audit_types.h. */
#include "daemon/audit/audit_types.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/own.h"

/* clang-format off */
/* In the order of the names: they are searched by halves. */
static const struct audit_type audit_types[] = {
	{ "alarm", "ALM01", 1, "a sign of an attack or of a mistake in a session" },
	{ "audit.cosigned", "AUD08", 1, "a checkpoint cosigned by witnesses was stored" },
	{ "audit.erased", "AUD06", 1, "sealed values were to be erased" },
	{ "audit.fork", "AUD03", 1, "another history of the log was signed before: a new log begins" },
	{ "audit.gap", "AUD04", 1, "records of the log are missing: a new log begins" },
	{ "audit.key", "AUD05", 1, "cordon-notary signs with another key" },
	{ "audit.pruned", "AUD07", 1, "old records were deleted, and their hashes kept" },
	{ "audit.read", "AUD01", 1, "an audit log was read" },
	{ "audit.rollback", "AUD02", 1, "the log has fewer records than were signed: a new log begins" },
	{ "audit.rotation", "AUD09", 1, "a new key for checkpoints was asked for" },
	{ "build.ended", "BLD02", 1, "a build of a template has ended" },
	{ "build.requested", "BLD01", 1, "a build of a template was requested" },
	{ "execution.ended", "EXE02", 1, "an execution has ended" },
	{ "execution.limit", "EXE03", 1, "an execution hit limits" },
	{ "execution.started", "EXE01", 1, "an execution was started" },
	{ "file.counted", "FIL08", 1, "file operations beyond the rate of records, by their number" },
	{ "file.exported", "FIL04", 1, "files of a session were fetched as an archive" },
	{ "file.imported", "FIL07", 1, "an archive was written into a session" },
	{ "file.made", "FIL06", 1, "a directory was made in a session" },
	{ "file.moved", "FIL05", 1, "a file of a session was moved" },
	{ "file.read", "FIL01", 1, "a file of a session was read" },
	{ "file.removed", "FIL03", 1, "a file of a session was removed" },
	{ "file.watched", "FIL09", 1, "a program of a session asked for a watched file" },
	{ "file.written", "FIL02", 1, "a file of a session was written" },
	{ "key.created", "KEY01", 1, "a key was created" },
	{ "key.expired", "KEY03", 1, "a key has expired" },
	{ "key.revoked", "KEY02", 1, "a key was revoked" },
	{ "mcp.call", "MCP01", 1, "a tool of an MCP server of a session was called" },
	{ "mcp.tools_changed", "MCP02", 1, "an MCP server offers other tools than before" },
	{ "network.batch", "NET01", 1, "network records of a session, by the root of their tree" },
	{ "node.heartbeat", "NOD03", 1, "the server runs: every 15 minutes" },
	{ "node.program", "NOD04", 1, "a program of the server was started, or replaced" },
	{ "node.start", "NOD01", 1, "cordond has started" },
	{ "node.stop", "NOD02", 1, "cordond was asked to end, or to hand over to another one" },
	{ "package.backdated", "PKG02", 1, "a registry reported an older date for a file than before" },
	{ "package.batch", "PKG03", 1, "package records of a session, by the root of their tree" },
	{ "package.changed", "PKG01", 1, "a registry sent another file under a known name" },
	{ "port.used", "PRT01", 1, "a client used a port of a session, first in an hour" },
	{ "secret.created", "SEC01", 1, "a secret was created" },
	{ "secret.deleted", "SEC03", 1, "a secret was deleted" },
	{ "secret.updated", "SEC02", 1, "a secret got another value or other hosts" },
	{ "secret.used", "SEC04", 1, "a secret was used in a session, first in an hour" },
	{ "session.changed", "SES12", 1, "metadata or times of a session were changed" },
	{ "session.created", "SES01", 1, "a session was created" },
	{ "session.diff", "SES07", 1, "the file changes of a session were kept, or could not be" },
	{ "session.ended", "SES03", 1, "a session has ended, with its duration and the result of the cleanup" },
	{ "session.guest", "SES05", 1, "how the guest of a session came up" },
	{ "session.network", "SES08", 1, "the network policy of a session was changed" },
	{ "session.port_closed", "SES10", 1, "a port was closed for clients without a key" },
	{ "session.port_opened", "SES09", 1, "a port was opened for clients without a key" },
	{ "session.reset", "SES04", 1, "a session was reset to its start" },
	{ "session.secrets_captured", "SES11", 1, "a copy of a session's files has secret values" },
	{ "session.state", "SES02", 1, "a session changed its state" },
	{ "session.storage_full", "SES06", 1, "a session was stopped because the storage folder had no room" },
	{ "snapshot.created", "SNP01", 1, "a snapshot was made of a session" },
	{ "snapshot.expired", "SNP03", 1, "a snapshot has expired" },
	{ "snapshot.removed", "SNP02", 1, "a snapshot was removed" },
	{ "template.added", "TPL01", 1, "a version of a template was added" },
	{ "template.published", "TPL07", 1, "a template was opened to other tenants" },
	{ "template.pull_failed", "TPL06", 1, "an image could not be pulled" },
	{ "template.pulled", "TPL05", 1, "an image was pulled" },
	{ "template.removed", "TPL02", 1, "a version of a template was removed" },
	{ "template.tagged", "TPL03", 1, "a tag was given to a version of a template" },
	{ "template.unpublished", "TPL08", 1, "a template was closed to other tenants" },
	{ "template.untagged", "TPL04", 1, "a tag was taken from a template" },
	{ "tenant.changed", "TEN02", 1, "a tenant was changed" },
	{ "tenant.created", "TEN01", 1, "a tenant was created" },
	{ "tenant.network", "TEN03", 1, "the network policy of a tenant was changed" },
	{ "tenant.removed", "TEN04", 1, "a tenant was removed" },
	{ "volume.content", "VOL03", 1, "the content of a volume was asked for or changed" },
	{ "volume.created", "VOL01", 1, "a volume was created" },
	{ "volume.deleted", "VOL02", 1, "a volume was deleted" },
};
/* clang-format on */

static int compare_name(const void *name, const void *type)
{
	return strcmp(name, ((const struct audit_type *)type)->name);
}

const struct audit_type *audit_type_find(const char *name)
{
	return bsearch(name, audit_types, COUNT(audit_types), sizeof(audit_types[0]), compare_name);
}

const struct audit_type *audit_types_all(size_t *ret_n)
{
	*ret_n = COUNT(audit_types);
	return audit_types;
}
