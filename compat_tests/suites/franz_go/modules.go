// Package franzgo names the packages whose tests are built: go.mod keeps only what something imports.
package franzgo

import (
	_ "github.com/twmb/franz-go/pkg/kadm"
	_ "github.com/twmb/franz-go/pkg/kgo"
)
