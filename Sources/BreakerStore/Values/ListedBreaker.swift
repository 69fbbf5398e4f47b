/// A breaker, and where it is found.
package struct ListedBreaker: Sendable, Hashable {
  package var id: Int64
  package var name: String

  package init(id: Int64, name: String) {
    self.id = id
    self.name = name
  }
}
