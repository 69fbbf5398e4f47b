@testable import BreakerCore

/// What every event does in every state under every mode, as a readable table.
///
/// A cell holds the answer and then what happened to the state. With nothing after the answer, the
/// state and the generation stayed the same. With `>O`, `>H` or `>C`, the breaker became open,
/// half-open or closed, the generation rose, and the history records it. `extended` means that the
/// open time of an open breaker was set again, and `sooner` that it was made shorter. In the state `taken` the breaker is due, and probes
/// of an earlier round hold every slot. A mode that has run out behaves like `automatic`, with one
/// more event before all others that says so.
enum EveryCell {
  static let table = """
    mode          state   request         success      failure    permanent  named      ignored  stale    trip       reset  mode   suspicion recovery
    automatic     closed  pass            counted      counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   done>H    no
    automatic     open    reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        sooner
    automatic     due     probe>H         outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    automatic     taken   reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    automatic     half    probe           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   no        no
    automatic     full    reject          counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   no        no
    observe       closed  pass            counted      counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   done>H    no
    observe       open    would           outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        sooner
    observe       due     probe>H         outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    observe       taken   would           outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    observe       half    probe           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   no        no
    observe       full    would           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   no        no
    forced_open   closed  reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_open   open    reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_open   due     reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_open   taken   reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_open   half    reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_open   full    reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_closed closed  unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_closed open    unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_closed due     unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_closed taken   unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_closed half    unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_closed full    unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    """
}
