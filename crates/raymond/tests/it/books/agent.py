"""A stand-in for every kind of agent program, with a model's service behind it that keeps books of its own.

    agent.py KIND [ARGUMENT…]

It speaks as the program of that kind does. Its service writes what every call of the model costs into `books.jsonl`, at once
and with prices of its own, so that the books also have what a turn has paid for that is killed.

A prompt says what happens: `say TEXT` is the answer. `once die`, `once hang` and `once mumble` are for the first turn with that
prompt: the program kills itself, or waits for ever, while its tool runs, or the answer has no tag.
"""
import fcntl, json, os, signal, sys, time, uuid, zlib

KIND, ARGS = sys.argv[1], sys.argv[2:]
HOME = os.path.dirname(os.path.abspath(__file__))
# Dollars for a million tokens: input, output, reading from the cache.
PRICE = (4.0, 20.0, 0.2)
# The instructions and tools of the program itself. They come from the cache, except for programs whose killed turns are
# estimated from their texts.
OWN = 9000
CACHED = 0 if KIND in ("gemini", "exec", "acp") else 5000


def path(name):
    return os.path.join(HOME, name)


def letters(text):
    return -(-len(text) // 4)


def after(flag, default=None):
    return ARGS[ARGS.index(flag) + 1] if flag in ARGS else default


class Used:
    def __init__(self, read=0, output=0, cached=0, usd=0.0):
        self.read, self.output, self.cached, self.usd = read, output, cached, usd

    def plus(self, other):
        return Used(*(a + b for a, b in zip(vars(self).values(), vars(other).values())))


def call(context, answer):
    """A call of the model: what it reads is paid for, and so is what it answers."""
    fresh = OWN + sum(map(letters, context)) - CACHED
    used = Used(fresh, letters(answer), CACHED)
    used.usd = (fresh * PRICE[0] + used.output * PRICE[1] + CACHED * PRICE[2]) / 1e6
    line = json.dumps({"run": os.environ["RAYMOND_RUN_ID"], "usd": used.usd}) + "\n"
    with open(path("books.jsonl"), "a") as books:
        fcntl.flock(books, fcntl.LOCK_EX)
        books.write(line)
    return used


class Session:
    """A conversation: what was said, the answer to repeat, and what it has used, with all that it branched off."""

    def __init__(self, id, parent=None):
        self.id = id
        kept = {"context": [], "say": "", "used": [0, 0, 0, 0.0]}
        if parent:
            with open(path("sessions/" + parent)) as file:
                kept = json.load(file)
        self.context, self.say, self.used = kept["context"], kept["say"], Used(*kept["used"])

    def keep(self):
        os.makedirs(path("sessions"), exist_ok=True)
        kept = {"context": self.context, "say": self.say, "used": list(vars(self.used).values())}
        with open(path("sessions/" + self.id) + ".new", "w") as file:
            json.dump(kept, file)
        os.rename(path("sessions/" + self.id) + ".new", path("sessions/" + self.id))


def turn(session, prompt, voice):
    """Two calls of the model, with a tool between them. `voice` prints them as the program does."""
    trick = None
    for line in prompt.splitlines():
        if line.startswith("say "):
            session.say = line[4:]
        if line.startswith("once "):
            mark = path("once-" + str(zlib.crc32((prompt + os.environ["RAYMOND_RUN_ID"]).encode())))
            if not os.path.exists(mark):
                open(mark, "w").close()
                trick = line[5:]
    voice.begin(prompt)
    session.context.append(prompt)
    thought = "I look at the files first, and then I shall know what to do about it."
    used = call(session.context, thought)
    session.used = session.used.plus(used)
    session.context.append(thought)
    voice.looked(thought, used)
    if trick == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if trick == "hang":
        time.sleep(600)
    found = "There are three files, and nothing is wrong with any of them."
    voice.found(found)
    session.context.append(found)
    answer = "I do not know." if trick == "mumble" else session.say
    last = call(session.context, answer)
    session.used = session.used.plus(last)
    session.context.append(answer)
    session.keep()
    voice.ended(answer, last, used.plus(last))


def send(message):
    print(json.dumps(message), flush=True)


class Voice:
    def __init__(self, session):
        self.session = session

    def begin(self, prompt):
        pass

    def found(self, text):
        pass


class Claude(Voice):
    MODEL = "claude-opus-5-5"

    def begin(self, prompt):
        send({"type": "system", "subtype": "init", "session_id": self.session.id, "model": self.MODEL, "cwd": HOME,
              "permissionMode": "acceptEdits", "tools": [], "mcp_servers": [], "apiKeySource": "none",
              "claude_code_version": "2.1.327"})

    def said(self, text, used):
        usage = {"input_tokens": used.read, "output_tokens": 1, "cache_read_input_tokens": used.cached,
                 "cache_creation_input_tokens": 0}
        message = {"id": "m" + uuid.uuid4().hex, "type": "message", "role": "assistant", "model": self.MODEL,
                   "content": [{"type": "text", "text": text}], "stop_reason": None, "usage": usage}
        send({"type": "assistant", "session_id": self.session.id, "parent_tool_use_id": None, "message": message})

    looked = said

    def ended(self, answer, last, used):
        self.said(answer, last)
        new = {"inputTokens": used.read, "outputTokens": used.output, "cacheReadInputTokens": used.cached,
               "cacheCreationInputTokens": 0, "costUSD": used.usd}
        send({"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "session_id": self.session.id,
              "total_cost_usd": self.session.used.usd, "result_index": 0, "modelUsage": {},
              "model_usage_since_last_result": {self.MODEL: new}, "stop_reason": "end_turn", "result": answer,
              "permission_denials": [], "duration_ms": 1, "usage": {"input_tokens": used.read, "output_tokens": used.output}})


class Codex(Voice):
    def counts(self, used):
        return {"inputTokens": used.read + used.cached, "cachedInputTokens": used.cached, "outputTokens": used.output,
                "totalTokens": used.read + used.cached + used.output}

    def looked(self, text, used):
        item = {"type": "commandExecution", "command": "ls"}
        send({"method": "item/started", "params": {"item": item}})
        self.used(used)

    def used(self, last):
        usage = {"total": self.counts(self.session.used), "last": self.counts(last), "modelContextWindow": 272000}
        send({"method": "thread/tokenUsage/updated", "params": {"turnId": "t", "tokenUsage": usage}})

    def ended(self, answer, last, used):
        self.used(last)
        send({"method": "item/completed", "params": {"item": {"type": "agentMessage", "text": answer}}})
        send({"method": "turn/completed", "params": {"turn": {"id": "t", "status": "completed"}}})


class Exec(Voice):
    def begin(self, prompt):
        send({"type": "thread.started", "thread_id": self.session.id})

    def looked(self, text, used):
        send({"type": "item.completed", "item": {"type": "agent_message", "text": text}})
        send({"type": "item.started", "item": {"type": "command_execution", "command": "ls"}})

    def found(self, text):
        send({"type": "item.completed", "item": {"type": "command_execution", "command": "ls", "aggregated_output": text}})

    def ended(self, answer, last, used):
        all = self.session.used
        send({"type": "item.completed", "item": {"type": "agent_message", "text": answer}})
        usage = {"input_tokens": all.read + all.cached, "cached_input_tokens": all.cached, "output_tokens": all.output}
        send({"type": "turn.completed", "usage": usage})


class Copilot(Voice):
    def event(self, type, data):
        event = {"type": type, "data": data, "id": str(uuid.uuid4())}
        folder = os.path.join(os.environ["HOME"], ".copilot/session-state", self.session.id)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "events.jsonl"), "a") as file:
            file.write(json.dumps(event, separators=(",", ":")) + "\n")
        return event

    def begin(self, prompt):
        send(self.event("user.message", {"content": prompt}))

    def used(self, used):
        usage = {"model": "books", "inputTokens": used.read + used.cached, "outputTokens": used.output,
                 "cacheReadTokens": used.cached, "cacheWriteTokens": 0, "maxPromptTokens": 128000,
                 "interactionType": "conversation-agent"}
        # It is not printed.
        self.event("session.usage_record", {"usage": usage})

    def looked(self, text, used):
        self.used(used)
        tool = {"name": "bash", "arguments": {"command": "ls"}}
        send(self.event("assistant.message", {"content": text, "toolRequests": [tool]}))

    def ended(self, answer, last, used):
        self.used(last)
        send(self.event("assistant.message", {"content": answer, "toolRequests": []}))
        send({"type": "result", "sessionId": self.session.id, "exitCode": 0})


class Gemini(Voice):
    def begin(self, prompt):
        send({"type": "init", "session_id": self.session.id, "model": "books"})
        send({"type": "message", "role": "user", "content": prompt})

    def looked(self, text, used):
        send({"type": "message", "role": "assistant", "content": text, "delta": True})
        send({"type": "tool_use", "tool_name": "shell", "parameters": {}})

    def found(self, text):
        send({"type": "tool_result", "status": "success", "output": text})

    def ended(self, answer, last, used):
        send({"type": "message", "role": "assistant", "content": answer, "delta": True})
        read = used.read + used.cached
        stats = {"total_tokens": read + used.output, "input_tokens": read, "output_tokens": used.output,
                 "cached": used.cached, "input": used.read}
        send({"type": "result", "status": "success", "stats": stats})


class Opencode(Voice):
    def step(self, text, used, reason):
        part = lambda **more: dict(more, messageID="m" + str(used.read), sessionID=self.session.id)
        tokens = {"input": used.read, "output": used.output, "reasoning": 0, "cache": {"read": used.cached, "write": 0}}
        for type, part in (("text", part(text=text)), ("step_finish", part(reason=reason, tokens=tokens, cost=used.usd))):
            send({"type": type, "sessionID": self.session.id, "part": part})

    def looked(self, text, used):
        self.step(text, used, "tool-calls")

    def ended(self, answer, last, used):
        self.step(answer, last, "stop")


class Pi(Voice):
    def begin(self, prompt):
        send({"type": "session", "id": self.session.id})
        send({"type": "agent_start"})

    def said(self, text, used, reason):
        usage = {"input": used.read, "output": used.output, "cacheRead": used.cached, "cacheWrite": 0,
                 "cost": {"total": used.usd}}
        send({"type": "message_end", "message": {"role": "assistant", "content": [{"type": "text", "text": text}],
                                                 "model": "books", "usage": usage, "stopReason": reason}})

    def looked(self, text, used):
        self.said(text, used, "toolUse")

    def ended(self, answer, last, used):
        self.said(answer, last, "stop")
        send({"type": "agent_settled"})


class Acp(Voice):
    def tell(self, update):
        send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": self.session.id, "update": update}})

    def said(self, text, used):
        self.tell({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
        self.tell({"sessionUpdate": "usage_update", "used": used.read + used.cached + used.output, "size": 200000})

    def looked(self, text, used):
        self.said(text, used)
        self.tell({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "kind": "read"})

    def ended(self, answer, last, used):
        self.said(answer, last)
        usage = {"inputTokens": used.read, "outputTokens": used.output, "cachedReadTokens": used.cached,
                 "totalTokens": used.read + used.cached + used.output}
        send({"jsonrpc": "2.0", "id": self.asked, "result": {"stopReason": "end_turn", "usage": usage}})


class Command(Voice):
    def looked(self, text, used):
        tokens = {"input": used.read, "output": used.output, "cache_read": used.cached}
        print("raymond-usage: " + json.dumps({"tokens": tokens, "cost_usd": used.usd}), file=sys.stderr, flush=True)

    def ended(self, answer, last, used):
        self.looked(answer, last)
        print(answer)


def talk():
    """Answers requests until the other side has said all."""
    session = voice = None
    for line in sys.stdin:
        asked = json.loads(line)
        method, params, id = asked.get("method"), asked.get("params") or {}, asked.get("id")
        answer = lambda result: send({"jsonrpc": "2.0", "id": id, "result": result})
        if method == "initialize":
            answer({"protocolVersion": 1, "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"fork": {}}}})
        elif method in ("thread/start", "thread/fork"):
            parent = params.get("threadId")
            session = Session("t" + uuid.uuid4().hex, parent)
            answer({"model": "books", "thread": {"id": session.id, "forkedFromId": parent}})
        elif method == "turn/start":
            answer({"turn": {"id": "t"}})
            turn(session, params["input"][0]["text"], Codex(session))
        elif method in ("session/new", "session/fork"):
            session = Session("s" + uuid.uuid4().hex, params.get("sessionId"))
            model = {"id": "model", "name": "Model", "type": "select", "currentValue": "books"}
            answer({"sessionId": session.id, "configOptions": [model]})
        elif method == "session/prompt":
            voice = Acp(session)
            voice.asked = id
            turn(session, params["prompt"][0]["text"], voice)


def main():
    if KIND in ("codex", "acp"):
        return talk()
    prompt = sys.stdin.read()
    new = uuid.uuid4().hex
    id, parent = {
        "claude": lambda: (after("--session-id"), after("--resume")),
        "exec": lambda: (new, after("fork")),
        "gemini": lambda: (after("--session-id") or after("-r"), after("-r")),
        "copilot": lambda: next(((arg[9:],) * 2 for arg in ARGS if arg.startswith("--resume=")), (after("--session-id"), None)),
        "opencode": lambda: ("ses_" + new, after("--session")),
        "pi": lambda: (after("--session-id"), after("--fork")),
        "command": lambda: (after("--id"), after("--resume")),
    }[KIND]()
    session = Session(id, parent)
    voices = {"claude": Claude, "exec": Exec, "gemini": Gemini, "copilot": Copilot, "opencode": Opencode, "pi": Pi, "command": Command}
    turn(session, prompt, voices[KIND](session))


main()
