import BenchReport
import Glibc

/// What the command line asks for.
struct Options {
  var isQuick = false
  var isJSON = false
  var plot: String?
  var room = ""

  /// What the topics that are measured have in their names.
  var topic = ""

  /// The Python that has the peers, if they are to be measured.
  var peers: String?
  var peerScript = ""

  /// Nil if it cannot be understood.
  init?(_ words: [String]) {
    var rest = words[...]
    while let word = rest.popFirst() {
      switch word {
      case "--quick": isQuick = true
      case "--json": isJSON = true
      case "--only", "--plot", "--room", "--peers", "--peer-script":
        guard let value = rest.popFirst() else { return nil }
        switch word {
        case "--only": topic = value
        case "--plot": plot = value
        case "--room": room = value
        case "--peers": peers = value
        default: peerScript = value
        }
      default: return nil
      }
    }
    if room.isEmpty { return nil }
  }
}
