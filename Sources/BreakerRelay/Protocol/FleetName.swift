internal import SharedBreaker

/// The names of fleets and hosts, which become parts of keys of the server.
package enum FleetName {
  package static let longest = 64

  /// Explains why a text is no such name; nil if it is one.
  package static func complaint(about name: String) -> String? {
    if name.isEmpty { return "it is empty" }
    if name.utf8.count > longest {
      return "it has \(name.utf8.count) bytes, and \(longest) is the limit"
    }
    let isAllowed = name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "-"):
        true
      default: false
      }
    }
    return isAllowed ? nil : "only letters, digits and the characters . _ - are allowed"
  }

  static func check(_ name: String, of what: String, remedy: String) throws(UsageError) {
    guard let complaint = complaint(about: name) else { return }
    throw UsageError(
      "not a name of \(what): '\(OutsideText.quoted(name))': \(complaint)", remedy)
  }
}
