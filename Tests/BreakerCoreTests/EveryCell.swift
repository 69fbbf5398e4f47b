@testable import BreakerCore

/// What every event does in every state under every mode, as a readable table.
///
/// A cell holds the answer and then what happened to the state. With nothing after the answer, the
/// state and the generation stayed the same. With `>O`, `>H` or `>C`, the breaker became open,
/// half-open or closed, the generation rose, and the history records it. `extended` means that the
/// open time of an open breaker was set again. In the state `taken` the breaker is due, and probes
/// of an earlier round hold every slot. A mode that has run out behaves like `automatic`, with one
/// more event before all others that says so.
enum EveryCell {
  static let table = """
    mode          state   request         success      failure    permanent  named      ignored  stale    trip       reset  mode
    automatic     closed  pass            counted      counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode
    automatic     open    reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    automatic     due     probe>H         outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    automatic     taken   reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    automatic     half    probe           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode
    automatic     full    reject          counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode
    observe       closed  pass            counted      counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode
    observe       open    would           outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    observe       due     probe>H         outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    observe       taken   would           outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    observe       half    probe           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode
    observe       full    would           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode
    forced_open   closed  reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode
    forced_open   open    reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    forced_open   due     reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    forced_open   taken   reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    forced_open   half    reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode
    forced_open   full    reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode
    forced_closed closed  unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode
    forced_closed open    unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    forced_closed due     unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    forced_closed taken   unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode
    forced_closed half    unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode
    forced_closed full    unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode
    """
}
