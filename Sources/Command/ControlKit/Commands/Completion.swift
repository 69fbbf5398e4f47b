import SharedBreaker

extension CommandSpec {
  static let completion = CommandSpec(
    name: "completion",
    summary: "print a completion script for a shell",
    arguments: [
      ArgumentSpec(
        label: "SHELL", kind: .choice(CompletionScript.allCases.map(\.rawValue)),
        summary: "bash, zsh or fish")
    ],
    details: [
      "Completes commands, options, words of a policy, and the names of the store's breakers. If "
        + "there is no store, it completes no names and prints no error."
    ],
    examples: [
      Example(
        "source <(cbctl completion bash)", "use it in this shell, or put this line into ~/.bashrc"),
      Example("cbctl completion zsh > \"${fpath[1]}/_cbctl\"", "install it for zsh"),
      Example(
        "cbctl completion fish > ~/.config/fish/completions/cbctl.fish", "install it for fish"),
    ],
    exitCodes: [.done, .usage]
  ) { context, parsed throws(ControlError) in
    if let script = CompletionScript(rawValue: parsed.text("SHELL") ?? "") {
      context.print(script.text)
    }
    return .done
  }

  /// The command for the completion scripts.
  static let complete = CommandSpec(
    name: "__complete",
    summary: "print what can be typed next",
    arguments: [
      ArgumentSpec(
        label: "SHELL", kind: .choice(CompletionScript.allCases.map(\.rawValue)),
        summary: "the shell that asks"),
      ArgumentSpec(label: "WORD", kind: .commandLine, summary: "what was typed"),
    ],
    exitCodes: [.done, .usage]
  ) { context, parsed throws(ControlError) in
    let typed = parsed.commandLine.map { String(decoding: $0, as: UTF8.self) }
    let shell = CompletionScript(rawValue: parsed.text("SHELL") ?? "") ?? .bash
    let line = shell.line(typed)
    let answer = Completer.answer(to: line.words) { store in context.namesToComplete(store) }
    context.print(shell.text(of: answer, for: line))
    return .done
  }
}

extension CompletionScript {
  /// Reads what a shell passes: bash its line and its word breaks, the others their words.
  fileprivate func line(_ typed: [String]) -> ShellWords {
    switch self {
    case .bash:
      var line = ShellWords(typed.first ?? "", breaks: typed.count > 1 ? typed[1] : "")
      line.dropFirst()
      return line
    case .zsh: return ShellWords(words: typed, last: typed.last ?? "")
    case .fish: return ShellWords(words: typed, last: ShellWords(typed.last ?? "").joined)
    }
  }

  fileprivate func text(of answer: Completer.Answer, for line: ShellWords) -> String {
    switch answer {
    case .words(let candidates): text("words", candidates, line)
    case .beginnings(let candidates): text("beginnings", candidates, line)
    case .files: "files\n"
    case .commandLine(let index): "command \(index)\n"
    }
  }

  private func text(
    _ kind: String, _ candidates: [Completer.Candidate], _ line: ShellWords
  ) -> String {
    kind + "\n" + candidates.map { text(of: $0, line) + "\n" }.joined()
  }

  private func text(of candidate: Completer.Candidate, _ line: ShellWords) -> String {
    switch self {
    case .bash: line.escaped(candidate.text)
    case .zsh:
      // By scalars, because a combining mark can follow a character that has to be escaped.
      candidate.text.unicodeScalars.map { "\\:".unicodeScalars.contains($0) ? "\\\($0)" : "\($0)" }
        .joined() + (candidate.summary.isEmpty ? "" : ":" + candidate.summary)
    case .fish: candidate.text + (candidate.summary.isEmpty ? "" : "\t" + candidate.summary)
    }
  }
}

extension CommandContext {
  /// The names of a store's breakers; none on an error, because completion cannot report one.
  fileprivate func namesToComplete(_ path: String?) -> [String] {
    var path = path
    if let typed = path, typed.hasPrefix("~/"), let home = console.environment["HOME"] {
      path = home + typed.dropFirst()
    }
    let store = path.map { SharedStore(path: $0, options: storeOptions) } ?? self.store
    do throws(StoreError) {
      try store.connectToExisting()
      return try store.names()
    } catch {
      return []
    }
  }
}

/// The script that teaches a shell to complete `cbctl`.
///
/// The scripts only pass on what `cbctl __complete` prints, so they never fall behind the commands.
/// The first line says what follows; each further line is one candidate.
enum CompletionScript: String, Sendable, CaseIterable {
  case bash, zsh, fish

  var text: String {
    switch self {
    case .bash: Self.bashText
    case .zsh: Self.zshText
    case .fish: Self.fishText
    }
  }

  private static let bashText = #"""
    # Completes cbctl in bash: source it, or put it into
    # ~/.local/share/bash-completion/completions/cbctl
    _cbctl() {
      local answer kind i
      answer=$(command cbctl __complete bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" \
        2>/dev/null) || return
      COMPREPLY=()
      kind=${answer%%$'\n'*}
      case $kind in
        words | beginnings)
          [[ $answer == *$'\n'* ]] && mapfile -t COMPREPLY <<<"${answer#*$'\n'}"
          [[ $kind == words ]] || compopt -o nospace
          ;;
        files) compopt -o default ;;
        command*)
          for ((i = 1; i < COMP_CWORD; i++)); do [[ ${COMP_WORDS[i]} != -- ]] || break; done
          if declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
          elif ((i + 1 == COMP_CWORD)); then
            mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
            ((${#COMPREPLY[@]})) || compopt -o default
          else
            compopt -o default
          fi
          ;;
      esac
    }
    complete -F _cbctl cbctl

    """#

  private static let zshText = #"""
    #compdef cbctl
    # Completes cbctl in zsh: put it into a directory of $fpath as _cbctl, or source it after compinit.
    _cbctl() {
      local -a answer candidates
      local current=${(Q)PREFIX}
      answer=("${(@f)$(command cbctl __complete zsh -- \
        "${(@Q)words[2,CURRENT-1]}" "$current" 2>/dev/null)}")
      candidates=("${(@)answer[2,-1]}")
      case $answer[1] in
        words) (( $#candidates )) && _describe -t cbctl cbctl candidates ;;
        beginnings) (( $#candidates )) && _describe -t cbctl cbctl candidates -S '' ;;
        files) _files ;;
        command*)
          local -i skip=${answer[1]#command }
          words=("${(@)words[skip+2,-1]}")
          (( CURRENT -= skip + 1 ))
          _normal
          ;;
      esac
    }
    if [[ $funcstack[1] == _cbctl ]]; then _cbctl "$@"; else compdef _cbctl cbctl; fi

    """#

  private static let fishText = #"""
    # Completes cbctl in fish: put it into ~/.config/fish/completions/cbctl.fish
    function __cbctl_complete
        set -l words (commandline -opc)
        set -l current (commandline -ct)
        set -l answer (command cbctl __complete fish -- $words[2..-1] $current 2>/dev/null)
        switch "$answer[1]"
            case words beginnings
                printf '%s\n' $answer[2..-1]
            case files
                __fish_complete_path $current
            case 'command*'
                set -l skip (string replace 'command ' '' -- $answer[1])
                set -l first (math $skip + 2)
                __fish_complete_subcommand --commandline $words[$first..-1] $current
        end
    end
    complete -c cbctl -f -a '(__cbctl_complete)'

    """#
}
