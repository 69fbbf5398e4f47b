@testable import BreakerCore

/// What every event does in every state under every mode, as a table to be read.
///
/// A cell is the answer, then what became of the state: nothing said, it stayed and so did the
/// generation; `>open` and the like, it moved, the generation rose, and the history has it.
/// `extended` is an open breaker whose open time is set again; one that is `taken` is due, with
/// every slot held by a probe of an earlier round. The modes that have run out are automatic, with
/// one more event before all others that says so.
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
