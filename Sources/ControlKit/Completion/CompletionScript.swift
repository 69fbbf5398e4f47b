/// The script that teaches a shell to complete `cbctl`.
///
/// The scripts only pass on what `cbctl __complete` answers, so they never fall behind the
/// commands. The first line of an answer says what follows; each further line is one candidate.
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
