// Kernel.java - runs cells of Java by the JShell API. Started by cordon-interpreter as `java Kernel.java` with descriptor
// 3 = a socket to it, one JSON object per line each way.
//
// Cells run in this process (JShell's local engine): one virtual machine instead of two. Variables of the session and of
// a call are system properties, since Java cannot change its environment.
//
// What must not change: every execute request is answered by one `done`; all messages go through send(), which is
// synchronized, since cells have threads.
import java.io.*;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.*;
import jdk.jshell.*;
import jdk.jshell.execution.LocalExecutionControlProvider;

public class Kernel {
    private static final String[] IMPORTS = {
        "java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*", "java.util.concurrent.*",
        "java.util.function.*", "java.util.prefs.*", "java.util.regex.*", "java.util.stream.*",
    };
    private static final int PART_MAX = 1 << 16; // bytes of output in one message

    private final BufferedReader requests;
    private final OutputStream link;
    private final JShell shell;
    private int count;
    private volatile Object running, interrupted; // cells

    // --- descriptor 3, which Java has no name for

    private static FileDescriptor descriptor(int number) throws Exception {
        Field self = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        self.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) self.get(null);
        FileDescriptor made = new FileDescriptor();
        unsafe.putInt(made, unsafe.objectFieldOffset(FileDescriptor.class.getDeclaredField("fd")), number);
        return made;
    }

    // --- messages

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c >= ' ' && c < 127) out.append(c);
            else out.append(String.format("\\u%04x", (int) c));
        }
        return out.append('"').toString();
    }

    private synchronized void send(String message) {
        try {
            link.write((message + "\n").getBytes(StandardCharsets.US_ASCII));
        } catch (IOException e) {
            Runtime.getRuntime().halt(1); // the server is gone
        }
    }

    private void fail(String name, String value, String traceback) {
        send("{\"type\":\"error\",\"name\":" + quoted(name) + ",\"value\":" + quoted(value) + ",\"traceback\":" + quoted(traceback) + "}");
    }

    /** System.out or System.err of the cells. */
    private class Output extends OutputStream {
        private final String type;
        private final ByteArrayOutputStream part = new ByteArrayOutputStream(); // of a character

        Output(String type) {
            this.type = type;
        }

        @Override
        public synchronized void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int n) {
            for (int end = from + n; from < end; from += PART_MAX) {
                part.write(bytes, from, Math.min(PART_MAX, end - from));
                byte[] all = part.toByteArray();
                int whole = all.length - unfinished(all);
                part.reset();
                part.write(all, whole, all.length - whole);
                String text = new String(all, 0, whole, StandardCharsets.UTF_8);
                if (whole > 0) send("{\"type\":\"" + type + "\",\"text\":" + quoted(text) + "}");
            }
        }

        /** How many bytes at the end begin a character of UTF-8 that has more. */
        private int unfinished(byte[] bytes) {
            for (int back = 1; back <= 3 && back <= bytes.length; back++) {
                int b = bytes[bytes.length - back] & 0xff;
                if (b >= 0xc0) return back < (b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2) ? back : 0;
                if (b < 0x80) return 0;
            }
            return 0;
        }
    }

    // --- the server's lines: objects of strings, numbers, true and false, and of such objects

    private static class Line {
        private final String text;
        private int at;

        Line(String text) {
            this.text = text;
        }

        private char next() {
            while (" ,:".indexOf(text.charAt(at)) >= 0) at++;
            return text.charAt(at);
        }

        Object value() {
            if (next() == '"') return string();
            if (next() == '{') return object();
            int from = at;
            while (" ,}".indexOf(text.charAt(at)) < 0) at++;
            return text.substring(from, at);
        }

        private Map<String, Object> object() {
            Map<String, Object> found = new LinkedHashMap<>();
            at++;
            while (next() != '}') found.put(string(), value());
            at++;
            return found;
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) out.append(text.charAt(at) == '\\' ? escape() : text.charAt(at));
            at++;
            return out.toString();
        }

        private char escape() {
            char c = text.charAt(++at);
            int simple = "bfnrt".indexOf(c);
            if (simple >= 0) return "\b\f\n\r\t".charAt(simple);
            if (c != 'u') return c;
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
        }
    }

    // --- the variables

    private static Map<String, String> setProperties(Object env) {
        Map<String, String> before = new HashMap<>();
        if (env instanceof Map<?, ?> map)
            map.forEach((name, value) -> before.put((String) name, System.setProperty((String) name, (String) value)));
        return before;
    }

    private static void resetProperties(Map<String, String> before) {
        before.forEach((name, value) -> {
            if (value == null) System.clearProperty(name);
            else System.setProperty(name, value);
        });
    }

    // --- running a cell

    private static boolean isValue(Snippet snippet) {
        return snippet.kind() == Snippet.Kind.EXPRESSION || snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
    }

    /** True if the cell goes on after this. */
    private boolean report(SnippetEvent event, boolean last, boolean silent) {
        if (event.causeSnippet() != null) return true; // an older snippet, changed by this one
        if (event.status() == Snippet.Status.REJECTED) return rejected(event.snippet());
        if (event.exception() != null) return thrown(event.exception());
        if (last && !silent && event.value() != null && isValue(event.snippet()))
            send("{\"type\":\"result\",\"is_main_result\":true,\"text\":" + quoted(event.value()) + "}");
        return true;
    }

    private boolean rejected(Snippet snippet) {
        StringBuilder all = new StringBuilder("CompilationError:");
        String first = null;
        for (Diag diag : (Iterable<Diag>) shell.diagnostics(snippet)::iterator) {
            String message = diag.getMessage(Locale.ENGLISH);
            if (first == null) first = message.lines().findFirst().orElse("");
            int from = (int) Math.min(Math.max(diag.getStartPosition(), 0), snippet.source().length());
            int line = (int) snippet.source().substring(0, from).chars().filter(c -> c == '\n').count();
            all.append("\n").append(message).append("\n    ").append(snippet.source().lines().skip(line).findFirst().orElse("").strip());
        }
        fail("CompilationError", first == null ? "the code is not Java" : first, all.toString());
        return false;
    }

    /** Frames of cells have no class, and the snippet's number as file. */
    private static String place(StackTraceElement frame) {
        if (frame.getFileName() == null || !frame.getFileName().startsWith("#")) return frame.toString();
        String method = frame.getMethodName().isEmpty() ? "cell" : frame.getMethodName();
        return method + " (" + frame.getFileName() + ":" + frame.getLineNumber() + ")";
    }

    private boolean thrown(JShellException exception) {
        String name = exception.getClass().getSimpleName();
        if (exception instanceof EvalException e) name = e.getExceptionClassName().replaceAll(".*[.$]", "");
        StringWriter text = new StringWriter();
        text.write(name + ": " + exception.getMessage());
        for (StackTraceElement frame : exception.getStackTrace()) text.write("\n    at " + place(frame));
        fail(name, String.valueOf(exception.getMessage()), text.toString());
        return false;
    }

    private void evaluate(String code, boolean silent) {
        String rest = code;
        while (!rest.isBlank()) {
            SourceCodeAnalysis.CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            boolean complete = info.completeness().isComplete();
            String source = complete ? info.source() : rest;
            rest = complete ? info.remaining() : "";
            boolean last = rest.isBlank() || shell.sourceCodeAnalysis().analyzeCompletion(rest).completeness() == SourceCodeAnalysis.Completeness.EMPTY;
            if (interrupted == running) return;
            if (source.isBlank()) continue;
            for (SnippetEvent event : shell.eval(source)) {
                if (interrupted == running || !report(event, last, silent)) return;
            }
        }
    }

    private void execute(Map<?, ?> request) {
        boolean silent = "true".equals(request.get("silent"));
        Map<String, String> before = setProperties(request.get("env"));
        if (!silent) send("{\"type\":\"count\",\"execution_count\":" + ++count + "}");
        running = request;
        try {
            evaluate((String) request.get("code"), silent);
            if (interrupted == running) fail("Interrupted", "the execution was interrupted", "Interrupted: the execution was interrupted");
        } catch (RuntimeException e) {
            fail(e.getClass().getSimpleName(), String.valueOf(e.getMessage()), e.toString());
        }
        System.out.flush();
        System.err.flush();
        running = null;
        resetProperties(before);
        send("{\"type\":\"done\",\"id\":" + request.get("id") + "}");
    }

    // --- start and end

    private Kernel() throws Exception {
        FileDescriptor socket = descriptor(3);
        requests = new BufferedReader(new InputStreamReader(new FileInputStream(socket), StandardCharsets.US_ASCII));
        link = new FileOutputStream(socket);
        System.setOut(new PrintStream(new Output("stdout"), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Output("stderr"), true, StandardCharsets.UTF_8));
        shell = JShell.builder().executionEngine(new LocalExecutionControlProvider(), null).out(System.out).err(System.err).build();
        for (String name : IMPORTS) shell.eval("import " + name + ";");
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> interrupt());
        Runtime.getRuntime().addShutdownHook(new Thread(this::exiting));
    }

    /**
     * On a thread of its own. JShell stops only what has begun, and it may be between two snippets: so again after a
     * while, but not at once, since stop() hits whatever its thread does.
     */
    private void interrupt() {
        Object cell = running;
        interrupted = cell;
        while (cell != null && running == cell) {
            shell.stop();
            java.util.concurrent.locks.LockSupport.parkNanos(500_000_000);
        }
    }

    private void exiting() {
        String value = "System.exit() ended the context: its variables are gone";
        if (running != null) fail("SystemExit", value, "SystemExit: " + value);
        Runtime.getRuntime().halt(1);
    }

    private void run() throws IOException {
        send("{\"type\":\"ready\"}");
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<?, ?> request = (Map<?, ?>) new Line(line).value();
            if ("env".equals(request.get("op"))) setProperties(request.get("env"));
            if ("execute".equals(request.get("op"))) execute(request);
        }
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] args) throws Exception {
        new Kernel().run();
    }
}
