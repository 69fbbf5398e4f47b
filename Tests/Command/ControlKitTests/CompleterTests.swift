import Testing

@testable import ControlKit

/// Completion without a shell.
struct CompleterTests {
  private func answer(_ words: String...) -> Completer.Answer {
    Completer.answer(to: words) { store in store.map { ["of-\($0)"] } ?? ["mail", "pay", "-x"] }
  }

  private func texts(_ answer: Completer.Answer) -> [String] {
    switch answer {
    case .words(let candidates), .beginnings(let candidates): candidates.map(\.text)
    case .files: ["FILES"]
    case .commandLine(let index): ["COMMAND \(index)"]
    }
  }

  @Test func `the first word is completed as a command`() {
    #expect(texts(answer("")) == CommandSpec.all.map(\.name))
    #expect(texts(answer("re")) == ["reset", "report", "restore"])
    #expect(texts(answer("--json", "sta")) == ["status"])
    #expect(texts(answer("nonsense", "")).isEmpty)
    #expect(!texts(answer("__")).contains("__complete"))
  }

  @Test func `names come from the store of the line, and each is offered once`() {
    #expect(texts(answer("show", "")) == ["mail", "pay"])
    #expect(texts(answer("reset", "mail", "")) == ["pay"])
    #expect(texts(answer("--store", "a", "show", "")) == ["of-a"])
    #expect(texts(answer("show", "--store=b", "")) == ["of-b"])
    #expect(texts(answer("show", "--", "p")) == ["pay"])
  }

  @Test func `options are offered after a dash or if nothing else fits`() {
    #expect(texts(answer("force", "--f")) == ["--for", "--fleet"])
    #expect(texts(answer("prune", "")).contains("--idle"))
    #expect(!texts(answer("prune", "--dry-run", "--")).contains("--dry-run"))
    #expect(texts(answer("policy", "pay", "--set", "probes=2", "--se")) == ["--set"])
    #expect(texts(answer("run", "pay", "--max-f")) == ["--max-failures"])
  }

  @Test func `the values that are offered are those of their option`() {
    #expect(texts(answer("status", "--state", "")) == ["closed", "open", "half_open"])
    #expect(texts(answer("status", "--state=o")) == ["--state=open"])
    #expect(
      texts(answer("force", "pay", "")) == ["forced_open", "forced_closed", "observe", "automatic"])
    #expect(texts(answer("trip", "pay", "--for", "")).isEmpty)
    #expect(texts(answer("fleet", "")) == ["status", "page", "withdraw", "forget", "leave"])
    #expect(texts(answer("fleet", "status", "")) == ["mail", "pay"])
    #expect(texts(answer("trip", "pay", "--fl")) == ["--fleet"])
    #expect(texts(answer("show", "--store", "")) == ["FILES"])
    guard case .beginnings(let keys) = answer("policy", "pay", "--set", "open-m") else {
      Issue.record("they go on")
      return
    }
    #expect(keys.map(\.text) == ["open-multiplier=", "open-max="])
  }

  @Test func `words after the dashes are left to the other program`() {
    #expect(texts(answer("run", "pay", "--", "")) == ["COMMAND 3"])
    #expect(texts(answer("run", "pay", "--", "ls", "-")) == ["COMMAND 3"])
  }

  @Test func `a command line is split into words as bash splits it`() {
    let line = ShellWords(#"cbctl show 'a b' "c\"d" e\ f"#)
    #expect(line.words == ["cbctl", "show", "a b", "c\"d", "e f"])
    #expect(ShellWords("cbctl show ").words == ["cbctl", "show", ""])
    #expect(ShellWords("cbctl show 'a b").openQuote == .single)
    #expect(ShellWords("x a:b:c", breaks: ":=").kept == 4)
    #expect(ShellWords("x a:'b", breaks: ":=").kept == 2)
    #expect(ShellWords(#"x \:a"#, breaks: ":=").kept == 0)
    #expect(ShellWords("x 'it").escaped("it's") == #"it'\''s"#)
    #expect(ShellWords("x \"it").escaped("it's $HOME") == #"it's \$HOME"#)
    #expect(ShellWords("x it").escaped("it's $HOME;") == #"it\'s\ \$HOME\;"#)
  }

  @Test func `a combining mark hides no special character from the shell's quoting`() {
    // Each of these pairs is one character to Swift and two to a shell.
    for (typed, name, escaped) in [
      ("x ", "b\u{600};id", "b\u{600}\\;id"), ("x ", "a>\u{301}b", "a\\>\u{301}b"),
      ("x '", "it'\u{301}s", "it'\\''\u{301}s"), ("x \"", "\u{600}`id`", "\u{600}\\`id\\`"),
      ("x \"", "\u{600}$(id)", "\u{600}\\$(id)"), ("x \"", "a!b", "a\"\\!\"b"),
    ] {
      #expect(ShellWords(typed).escaped(name) == escaped, "\(typed)\(name)")
    }
    #expect(ShellWords("x 'a'\u{301} \u{301}b").words == ["x", "a\u{301}", "\u{301}b"])
    #expect(ShellWords("x a:\u{301}", breaks: ":").kept == 2)
    let bench = CommandBench()
    _ = bench("policy", "a:\u{301}\u{600}\\b", "--set", "probes=2")
    #expect(
      bench("__complete", "zsh", "--", "show", "").output
        == "words\na\\:\u{301}\u{600}\\\\b\n")
    #expect(
      bench("__complete", "bash", "--", "cbctl show a:", ":").output
        == "words\n\u{301}\u{600}\\\\b\n")
  }

  @Test(arguments: CompletionScript.allCases)
  func `the completion script of every shell matches its snapshot`(shell: CompletionScript) {
    Golden.expect(Answer.of("completion", shell.rawValue).output, "completion-\(shell).txt")
  }

  @Test func `completion without a store offers no names and prints no error`() {
    let bench = CommandBench()
    let answer = bench("__complete", "zsh", "--", "show", "")
    #expect(answer.code == 0)
    #expect(answer.errors.isEmpty)
    #expect(bench.files.isEmpty)
  }

  @Test func `candidates are quoted for their shell`() {
    let bench = CommandBench()
    _ = bench("policy", "a:b c", "--set", "probes=2")
    #expect(bench("__complete", "bash", "--", "cbctl show ", ":").output == "words\na:b\\ c\n")
    #expect(bench("__complete", "bash", "--", "cbctl show a:", ":").output == "words\nb\\ c\n")
    #expect(bench("__complete", "zsh", "--", "show", "").output == "words\na\\:b c\n")
    #expect(bench("__complete", "fish", "--", "show", "'a").output == "words\na:b c\n")
    #expect(
      bench("__complete", "fish", "--", "ini").output
        == "words\ninit\tcreate the store before its first use\n")
  }
}
