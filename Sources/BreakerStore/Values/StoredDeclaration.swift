/// A policy that code declared, and who was the last to declare it.
package struct StoredDeclaration: Sendable, Hashable {
  package var words: String
  package var atMilliseconds: Int64
  package var pid: Int32
  package var program: String
}
