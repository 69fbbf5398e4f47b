/// Whole numbers such as `5`: digits only.
package enum CountText {
  package static func parse(_ text: String) -> Int? {
    text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
  }
}
