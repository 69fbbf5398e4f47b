// One import is all that an application needs.
@_exported public import BreakerCore
@_exported public import BreakerStore
