import Glibc

/// The options of the command line.
struct BenchOptions {
  var isQuick = false
  var isJSON = false
  var plot: String?
  var room = ""

  /// The text that the names of the measured topics contain.
  var topic = ""

  /// The Python that has the other breakers installed; nil if they are not measured.
  var peers: String?
  var peerScript = ""

  /// Parses the command line; nil if it is not valid.
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
