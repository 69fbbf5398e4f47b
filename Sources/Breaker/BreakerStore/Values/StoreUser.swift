package import BreakerCore

/// The process that writes to a store, and why it can make no breakers there, if it cannot.
package struct StoreUser {
  package var author: HistoryAuthor
  package var lackOfRoom: StoreError?

  package init(_ author: HistoryAuthor, lackOfRoom: StoreError? = nil) {
    self.author = author
    self.lackOfRoom = lackOfRoom
  }
}
